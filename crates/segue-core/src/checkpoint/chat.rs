//! Lines of a chat that somebody pasted: who said something, and at what time of the day.

/// `bob 10:14 AM`, `Mia Lang [10:14]`
pub(super) fn is_chat_head(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let words = match words.as_slice() {
        [words @ .., half] if is_half(half) => words,
        words => words,
    };
    matches!(words, [name @ .., clock] if is_clock(clock) && is_name(name))
}

/// `bob 10:14 AM we should`, `[10:14] bob: we should`, `10:14 bob: we should`
pub(super) fn is_chat(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.iter().any(|word| is_clock(word)) && is_thread(&words) {
        return true;
    }
    let at = words.iter().take(3).position(|word| is_clock(word));
    let Some((name, rest)) = at.and_then(|at| words.split_at_checked(at)) else {
        return false;
    };
    let halved = rest.get(1).is_some_and(|word| is_half(word));
    let marked = rest
        .first()
        .is_some_and(|word| word.ends_with([']', ')']) || word.ends_with("):"));
    let speaks = rest.iter().skip(1).take(3).any(|word| word.ends_with(':'));
    match name {
        [] => speaks,
        name => is_name(name) && (halved || marked),
    }
}

/// Whether several speak in one line, or it says that somebody does: `thread: bob 10:14 AM we should`
fn is_thread(words: &[&str]) -> bool {
    let speaks = |words: &&[&str]| match words {
        [_, name, clock, half] => is_clock(clock) && is_half(half) && is_name(&[name]),
        _ => false,
    };
    let mut heads = words.windows(4).filter(speaks);
    let is_led = heads
        .next()
        .map(|head| head.first().is_some_and(|lead| lead.ends_with(':')));
    is_led == Some(true) || is_led.is_some() && heads.next().is_some()
}

/// `10:14`, `[10:14]`, `10:14AM`
fn is_clock(word: &str) -> bool {
    let word = word
        .trim_matches(['[', ']', '(', ')', ',', ':'])
        .to_ascii_uppercase();
    let word = word.trim_end_matches(['A', 'P', 'M']);
    let Some((hours, minutes)) = word.split_once(':') else {
        return false;
    };
    let of = |part: &str, most| part.len() <= 2 && part.parse::<u8>().is_ok_and(|part| part < most);
    of(hours, 24) && minutes.len() == 2 && of(minutes, 60)
}

/// Which half of the day a clock means.
fn is_half(word: &str) -> bool {
    let word = word.trim_matches(['[', ']', '(', ')', ',', ':']);
    word.eq_ignore_ascii_case("am") || word.eq_ignore_ascii_case("pm")
}

/// Whether some words before a clock name who speaks, and not when something is.
fn is_name(words: &[&str]) -> bool {
    let when = [
        "at", "by", "until", "till", "before", "after", "around", "since", "from", "to", "not",
        "is", "um", "ab", "bis", "every", "than", "for", "the",
    ];
    let is_word = |word: &&str| {
        word.chars()
            .all(|c| c.is_alphanumeric() || "._-@[]()".contains(c))
    };
    (1..=3).contains(&words.len())
        && words.iter().all(is_word)
        && !words
            .iter()
            .any(|word| when.contains(&word.to_lowercase().as_str()))
}
