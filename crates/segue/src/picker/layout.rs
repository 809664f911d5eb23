//! Layout of the screen by its size.

use ratatui::layout::{Rect, Size};

/// Minimum width of the screen for a preview next to the list.
const MIN_SIDE_PREVIEW_WIDTH: u16 = 110;
/// Minimum height of the screen for a preview below the list.
const MIN_BOTTOM_PREVIEW_HEIGHT: u16 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PickerLayout {
    pub(super) search: Rect,
    pub(super) info: Rect,
    pub(super) list: Rect,
    /// Line between list and preview.
    pub(super) rule: Rect,
    pub(super) preview: Option<Rect>,
    pub(super) footer: Rect,
}

impl PickerLayout {
    pub(super) fn for_size(size: Size) -> Self {
        let Size { width, height } = size;
        // On a small screen the last line is dropped first, then the line of details.
        let footer_height = u16::from(height >= 4);
        let info_height = u16::from(height >= 3);
        let search_height = height.min(1);
        let top = search_height + info_height;
        let middle_height = height - top - footer_height;
        let row = |y, height| Rect::new(0, y, width, height);
        let mut layout = Self {
            search: row(0, search_height),
            info: row(search_height, info_height),
            list: row(top, middle_height),
            rule: Rect::default(),
            preview: None,
            footer: row(height - footer_height, footer_height),
        };
        if width >= MIN_SIDE_PREVIEW_WIDTH && height >= 8 {
            let rule_x = width / 20 * 11;
            layout.list = Rect::new(0, top, rule_x - 1, middle_height);
            layout.rule = Rect::new(rule_x, top, 1, middle_height);
            layout.preview = Some(Rect::new(
                rule_x + 2,
                top,
                width - rule_x - 2,
                middle_height,
            ));
        } else if height >= MIN_BOTTOM_PREVIEW_HEIGHT && width >= 40 {
            let preview_height = middle_height * 2 / 5;
            let list_height = middle_height - preview_height - 1;
            layout.list = row(top, list_height);
            layout.rule = row(top + list_height, 1);
            layout.preview = Some(row(top + list_height + 1, preview_height));
        }
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_on_the_screen_and_do_not_overlap() {
        for width in 0..220 {
            for height in 0..60 {
                let screen = Rect::new(0, 0, width, height);
                let layout = PickerLayout::for_size(Size { width, height });
                let areas = [
                    layout.search,
                    layout.info,
                    layout.list,
                    layout.rule,
                    layout.preview.unwrap_or_default(),
                    layout.footer,
                ];
                for (index, area) in areas
                    .iter()
                    .enumerate()
                    .filter(|(_, area)| !area.is_empty())
                {
                    assert_eq!(screen.intersection(*area), *area, "{width}x{height}");
                    for other_area in &areas[index + 1..] {
                        let shared = area.intersection(*other_area);
                        assert!(shared.is_empty(), "{width}x{height}: {area} {other_area}");
                    }
                }
            }
        }
    }

    #[test]
    fn list_and_preview_have_the_expected_sizes() {
        let cases = [
            ((80, 24), (80, 12), Some((80, 8))),
            ((120, 40), (65, 37), Some((52, 37))),
            ((200, 50), (109, 47), Some((88, 47))),
            ((40, 10), (40, 7), None),
            ((20, 3), (20, 1), None),
            ((20, 2), (20, 1), None),
        ];
        let dimensions = |rect: Rect| (rect.width, rect.height);
        for ((width, height), list, preview) in cases {
            let layout = PickerLayout::for_size(Size { width, height });
            assert_eq!(dimensions(layout.list), list, "{width}x{height}");
            assert_eq!(layout.preview.map(dimensions), preview, "{width}x{height}");
        }
    }
}
