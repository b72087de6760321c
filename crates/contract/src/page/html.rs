//! Writes HTML, with every text of the document escaped.

/// Bytes that one description, example or other text may have.
const TEXT_MAX: usize = 32 * 1024;

/// A page that grows; it knows when it is full.
pub(super) struct HtmlWriter {
    text: String,
    limit: usize,
}

impl HtmlWriter {
    /// A page of about `limit` bytes: parts check [`HtmlWriter::is_full`] before they begin.
    pub(super) fn new(limit: usize) -> HtmlWriter {
        HtmlWriter { text: String::new(), limit }
    }

    /// Whether no further operation or schema is to be written.
    pub(super) fn is_full(&self) -> bool {
        self.text.len() >= self.limit
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Adds markup of this program.
    pub(super) fn raw(&mut self, markup: &str) -> &mut HtmlWriter {
        self.text.push_str(markup);
        self
    }

    /// Adds a text of the document, for content and for attributes in double quotes.
    pub(super) fn text(&mut self, text: &str) -> &mut HtmlWriter {
        let end = (0..=TEXT_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        for character in text[..end].chars() {
            match character {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\'' => self.text.push_str("&#39;"),
                '`' => self.text.push_str("&#96;"),
                '\n' | '\t' => self.text.push(character),
                character if is_hidden(character) => self.text.push('\u{fffd}'),
                character => self.text.push(character),
            }
        }
        if end < text.len() {
            self.text.push_str(" … (shortened)");
        }
        self
    }

    /// Adds an element with a text. The class is one of this program.
    pub(super) fn element(&mut self, name: &str, class: &str, text: &str) -> &mut HtmlWriter {
        self.open(name, class).text(text).raw("</").raw(name).raw(">")
    }

    /// Adds the start of an element.
    pub(super) fn open(&mut self, name: &str, class: &str) -> &mut HtmlWriter {
        self.raw("<").raw(name);
        if !class.is_empty() {
            self.raw(" class=\"").raw(class).raw("\"");
        }
        self.raw(">")
    }

    /// Adds an attribute with a text of the document.
    pub(super) fn attribute(&mut self, name: &str, value: &str) -> &mut HtmlWriter {
        self.raw(" ").raw(name).raw("=\"").text(value).raw("\"")
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// Control characters, and marks that turn the direction of text so that a reader sees another text.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A name as part of an `id` and of a link to it.
pub(super) fn anchor_name(name: &str) -> String {
    let safe = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    name.chars().take(120).map(|letter| if safe(letter) { letter } else { '-' }).collect()
}
