//! Layout of the screen by its size.

use ratatui::layout::{Rect, Size};

/// Minimum width of the screen for a preview next to the list.
const BESIDE: u16 = 110;
/// Minimum height of the screen for a preview below the list.
const BELOW: u16 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) search: Rect,
    pub(super) info: Rect,
    pub(super) list: Rect,
    /// Line between list and preview.
    pub(super) rule: Rect,
    pub(super) preview: Option<Rect>,
    pub(super) foot: Rect,
}

impl Layout {
    pub(super) fn of(size: Size) -> Self {
        let Size { width, height } = size;
        // On a small screen the last line is dropped first, then the line of details.
        let foot = u16::from(height >= 4);
        let info = u16::from(height >= 3);
        let search = height.min(1);
        let top = search + info;
        let middle = height - top - foot;
        let row = |y, height| Rect::new(0, y, width, height);
        let mut layout = Self {
            search: row(0, search),
            info: row(search, info),
            list: row(top, middle),
            rule: Rect::default(),
            preview: None,
            foot: row(height - foot, foot),
        };
        if width >= BESIDE && height >= 8 {
            let left = width / 20 * 11;
            layout.list = Rect::new(0, top, left - 1, middle);
            layout.rule = Rect::new(left, top, 1, middle);
            layout.preview = Some(Rect::new(left + 2, top, width - left - 2, middle));
        } else if height >= BELOW && width >= 40 {
            let below = middle * 2 / 5;
            let above = middle - below - 1;
            layout.list = row(top, above);
            layout.rule = row(top + above, 1);
            layout.preview = Some(row(top + above + 1, below));
        }
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_on_the_screen_and_nothing_overlaps() {
        for width in 0..220 {
            for height in 0..60 {
                let screen = Rect::new(0, 0, width, height);
                let layout = Layout::of(Size { width, height });
                let all = [
                    layout.search,
                    layout.info,
                    layout.list,
                    layout.rule,
                    layout.preview.unwrap_or_default(),
                    layout.foot,
                ];
                for (at, one) in all.iter().enumerate().filter(|(_, one)| !one.is_empty()) {
                    assert_eq!(screen.intersection(*one), *one, "{width}x{height}");
                    for other in &all[at + 1..] {
                        let shared = one.intersection(*other);
                        assert!(shared.is_empty(), "{width}x{height}: {one} {other}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_list_gets_its_share() {
        let cases = [
            ((80, 24), (80, 12), Some((80, 8))),
            ((120, 40), (65, 37), Some((52, 37))),
            ((200, 50), (109, 47), Some((88, 47))),
            ((40, 10), (40, 7), None),
            ((20, 3), (20, 1), None),
            ((20, 2), (20, 1), None),
        ];
        let measures = |rect: Rect| (rect.width, rect.height);
        for ((width, height), list, preview) in cases {
            let layout = Layout::of(Size { width, height });
            assert_eq!(measures(layout.list), list, "{width}x{height}");
            assert_eq!(layout.preview.map(measures), preview, "{width}x{height}");
        }
    }
}
