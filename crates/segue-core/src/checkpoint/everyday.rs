//! Words that are in every conversation about code: however rare they are in this one, they tell nothing.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Whether a word, in small letters, is one of those; the shortest all are.
pub(super) fn is_common(word: &str) -> bool {
    static ALL: LazyLock<HashSet<&str>> = LazyLock::new(|| common().collect());
    word.len() < 3 || ALL.contains(word)
}

/// All of those with three letters and more.
pub(super) fn common() -> impl Iterator<Item = &'static str> {
    COMMON.split(' ')
}

const COMMON: &str = "\
    able about above according across actually add added adding additional adds after again against all almost along \
    already also although always among and another answer any anyone anything appear appears applies apply are \
    aren't argument arguments around array ask asked asks assertion auch auf available avec away back bad basically \
    because become becomes been before began begin beginning begins behind being below beside besides best better \
    between big bit bitte block body bool both bottom branch branches bug build builds built but cache call called \
    callee caller callers calling calls came can can't case cases change changed changes changing check checked \
    checking checks class classes clear client close closed closer closes code column columns come comes coming \
    command commands comment comments commit commits compare compared compares compile compiled compiler compiles \
    complete con condition config constant constructor contain contains correct could couldn't count counted counts \
    create created creates currently dans das data database day days default dem den depends der des did didn't die \
    diff difference different directly directory disk doc docs does doesn't doing don't done double down dozen due \
    during each easy eight ein eine einen einer either else empty end ended ends enough error errors especially est \
    even ever every everyone everything exactly example exception exist existing exists expect expected explain \
    expression fail failed fails failure failures false fast few fewer field fields file files final finally find \
    finds fine finish finished finishes first five fix fixed fixes fixture flag flags folder folders following \
    follows for format formatter found four from full function functions further für gave get gets getting git give \
    given gives goes going gone good got great grep had hadn't half happen happened happens happy hard has hasn't \
    have haven't having header helper her here here's hers hier high him his history hmm how however hundred i'd \
    i'll i'm i've ich idea identical import imports include includes including index input inside instance instead \
    int interface into isn't issue issues ist it'll it's its itself just keep keeps kept key keys kind knew know \
    known knows large las last later least les less let let's like likely line lines linter list listed lists little \
    load loaded loads local log logs long look looked looking looks loop loops los lot low machine made main make \
    makes making many map match matched matches matter may maybe mean means meant memory message messages method \
    methods middle might mine minute minutes mit module modules moment more most mostly move moved moves much must \
    name names near nearly need needed needs neighbouring neither never new next nice nicht nine noch nope nor not \
    note nothing noticed now number numbers object objects oder off often okay old once one ones only onto open \
    opened opens option options order other otherwise ought our ours out output outside over overload own para \
    parameter parameters part particular parts pas pass passed passes path paths per perfect perhaps place places \
    plain please point points por port possible pour previous print printed prints probably problem problems process \
    properly put puts que query question qui quick quickly quite ran rather read reading readme reads ready really \
    reason related relevant remaining remove removed removes repo repository request requests response rest result \
    results return returned returns right row rows run running runs said same save saves saw say says schon scope \
    screen script scripts scroll search searched searches second seconds see seem seems seen sees separate server \
    set sets setting settings seven several shall she shell short should shouldn't show showed shown shows side sie \
    signature similar simple simply since sind single six slightly slow small smaller some someone something \
    sometimes somewhere son sont soon sorry sort specific start started starting starts statement status step steps \
    still stop stopped stops straight string strings struct structs sub such suite sur sure table take taken takes \
    taking tell tells ten terminal test tested testing tests than thank thanks that that's the their theirs them \
    then there there's these they they're they've thing things think thinks third this those though thought thread \
    three through till time times today together told too took top total towards trace tries true try turn turns \
    twice two type types und under une unless until unused use used user users uses using usual usually value values \
    variable variables various version versions very via von wait waits want wanted wants war warning warnings was \
    wasn't way ways we'd we'll we're we've week well went were weren't what what's when where whether which while \
    who whole whom whose why will wir with within without won't word words work worked working works worth would \
    wouldn't write writes writing written wrong wrote yeah yep yes yet you you'd you'll you're you've your yours \
    yourself";
