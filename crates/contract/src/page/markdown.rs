//! A small part of Markdown: paragraphs, lists, headings, code, emphasis, and links to `http` and `https`.
//! HTML in a description is shown as text.

use super::html::HtmlWriter;

/// Bytes of a description that are shown.
const DESCRIPTION_MAX: usize = 64 * 1024;

/// The block that is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenBlock {
    Nothing,
    Paragraph,
    List,
    Code,
}

/// Writes a description.
pub(super) fn write_markdown(html: &mut HtmlWriter, text: &str) {
    let end =
        (0..=DESCRIPTION_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    html.raw("<div class=\"md\">");
    let mut block = OpenBlock::Nothing;
    for line in text[..end].lines() {
        block = write_line(html, line, block);
    }
    close(html, block);
    if end < text.len() {
        html.raw("<p class=\"note\">The description was shortened.</p>");
    }
    html.raw("</div>");
}

fn write_line(html: &mut HtmlWriter, line: &str, block: OpenBlock) -> OpenBlock {
    let trimmed = line.trim();
    let is_fence = trimmed.starts_with("```");
    if block == OpenBlock::Code {
        if is_fence {
            close(html, block);
            return OpenBlock::Nothing;
        }
        html.text(line).raw("\n");
        return block;
    }
    if is_fence {
        close(html, block);
        html.raw("<pre><code>");
        return OpenBlock::Code;
    }
    if trimmed.is_empty() {
        close(html, block);
        return OpenBlock::Nothing;
    }
    if let Some(heading) = trimmed.strip_prefix('#') {
        close(html, block);
        html.raw("<p class=\"heading\">");
        write_inline(html, heading.trim_start_matches('#').trim());
        html.raw("</p>");
        return OpenBlock::Nothing;
    }
    if let Some(item) = ["- ", "* ", "+ "].iter().find_map(|mark| trimmed.strip_prefix(mark)) {
        if block != OpenBlock::List {
            close(html, block);
            html.raw("<ul>");
        }
        html.raw("<li>");
        write_inline(html, item);
        html.raw("</li>");
        return OpenBlock::List;
    }
    if block == OpenBlock::Paragraph {
        html.raw("\n");
    } else {
        close(html, block);
        html.raw("<p>");
    }
    write_inline(html, trimmed);
    OpenBlock::Paragraph
}

fn close(html: &mut HtmlWriter, block: OpenBlock) {
    html.raw(match block {
        OpenBlock::Nothing => "",
        OpenBlock::Paragraph => "</p>\n",
        OpenBlock::List => "</ul>\n",
        OpenBlock::Code => "</code></pre>\n",
    });
}

/// Writes a line with code, emphasis and links. Emphasis is not nested.
fn write_inline(html: &mut HtmlWriter, line: &str) {
    let mut rest = line;
    while let Some(start) = rest.find(['`', '*', '[']) {
        html.text(&rest[..start]);
        rest = &rest[start..];
        let used = write_span(html, rest);
        if used == 0 {
            html.text(&rest[..1]);
        }
        rest = &rest[used.max(1)..];
    }
    html.text(rest);
}

/// Writes the span at the start of the text; returns its length, zero where none begins.
fn write_span(html: &mut HtmlWriter, text: &str) -> usize {
    for (mark, element) in [("`", "code"), ("**", "strong"), ("*", "em")] {
        let Some(inner) = text.strip_prefix(mark) else { continue };
        if let Some(end) = inner.find(mark).filter(|end| *end > 0 && !inner.starts_with(' ')) {
            html.element(element, "", &inner[..end]);
            return end + 2 * mark.len();
        }
    }
    link_parts(text).map_or(0, |(label, address, used)| {
        write_link(html, label, address);
        used
    })
}

/// The label, the address and the length of `[label](address)`.
fn link_parts(text: &str) -> Option<(&str, &str, usize)> {
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (address, _) = rest.split_once(')')?;
    let is_plain = !label.contains('[') && !address.contains(char::is_whitespace);
    is_plain.then_some((label, address, label.len() + address.len() + 4))
}

/// Writes a link; an address that is not `http` or `https` is shown as text.
pub(super) fn write_link(html: &mut HtmlWriter, label: &str, address: &str) {
    let lower = address.trim().to_ascii_lowercase();
    let is_web = lower.starts_with("https://") || lower.starts_with("http://");
    if !is_web {
        html.text(label).raw(" (").text(address).raw(")");
        return;
    }
    html.raw("<a rel=\"noopener noreferrer nofollow\"").attribute("href", address.trim()).raw(">");
    html.text(label).raw("</a>");
}
