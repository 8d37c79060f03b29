//! Lines of Rust, split into code and comment.

/// A line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Code before the comment, or between comments.
    pub(crate) code: String,
    /// The line's comment with its slashes or stars.
    pub(crate) comment: Option<String>,
}

impl Line {
    /// Returns the text of a doc comment, without the slashes and one blank behind them.
    pub(crate) fn doc(&self) -> Option<&str> {
        let comment = self.comment.as_deref().filter(|_| self.code.trim().is_empty())?;
        let text = comment.strip_prefix("///").filter(|t| !t.starts_with('/'));
        let text = text.or_else(|| comment.strip_prefix("//!"))?;
        Some(text.strip_prefix(' ').unwrap_or(text))
    }
}

/// State of a scan between two characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Code,
    /// Inside block comments, with their depth.
    Block(u32),
    /// Inside a string, with the number of hashes that end a raw one.
    Text(Option<usize>),
}

/// Splits a file into its lines. Slashes in strings begin no comment.
pub(crate) fn split(text: &str) -> Vec<Line> {
    let mut at = At::Code;
    text.lines().map(|line| scan(line, &mut at)).collect()
}

fn scan(text: &str, at: &mut At) -> Line {
    let chars: Vec<char> = text.chars().collect();
    let is = |i: usize, what: &str| what.chars().enumerate().all(|(k, c)| chars.get(i + k) == Some(&c));
    let mut line = Line::default();
    let mut i = 0;
    while i < chars.len() {
        let begin = i;
        let comment = match *at {
            At::Block(depth) => {
                i += 1 + usize::from(is(i, "*/") || is(i, "/*"));
                *at = match depth {
                    1 if is(begin, "*/") => At::Code,
                    _ if is(begin, "*/") => At::Block(depth - 1),
                    _ if is(begin, "/*") => At::Block(depth + 1),
                    _ => At::Block(depth),
                };
                true
            }
            At::Text(hashes) => {
                i += 1;
                match hashes {
                    None if chars[begin] == '\\' => i += 1,
                    None if chars[begin] == '"' => *at = At::Code,
                    Some(n) if chars[begin] == '"' && is(i, &"#".repeat(n)) => {
                        i += n;
                        *at = At::Code;
                    }
                    _ => {}
                }
                false
            }
            At::Code if is(i, "//") => {
                i = chars.len();
                true
            }
            At::Code if is(i, "/*") => {
                i += 2;
                *at = At::Block(1);
                true
            }
            At::Code => {
                i += code(&chars[i..], begin.checked_sub(1).map(|b| chars[b]), at);
                false
            }
        };
        let part = chars[begin..i.min(chars.len())].iter();
        if comment { line.comment.get_or_insert_default().extend(part) } else { line.code.extend(part) }
    }
    line
}

/// Returns how many characters the next piece of code has: a character, or what begins a string.
fn code(rest: &[char], before: Option<char>, at: &mut At) -> usize {
    let word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match rest {
        ['"', ..] => {
            *at = At::Text(None);
            1
        }
        ['r', more @ ..] | ['b' | 'c', 'r', more @ ..] if !word => {
            let hashes = more.iter().take_while(|c| **c == '#').count();
            if more.get(hashes) != Some(&'"') {
                return 1;
            }
            *at = At::Text(Some(hashes));
            rest.len() - more.len() + hashes + 1
        }
        // A character such as '"', and no lifetime.
        ['\'', '\\', _, more @ ..] => 3 + more.iter().take_while(|c| **c != '\'').count() + 1,
        ['\'', _, '\'', ..] => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, Option<String>)> {
        split(text).into_iter().map(|l| (l.code, l.comment)).collect()
    }

    #[test]
    fn comments_are_found_beside_code() {
        let found = of("let a = 1; // one\n/* two\nthree */ let b = 2;");
        assert_eq!(found[0], ("let a = 1; ".into(), Some("// one".into())));
        assert_eq!(found[1], (String::new(), Some("/* two".into())));
        assert_eq!(found[2], (" let b = 2;".into(), Some("three */".into())));
    }

    #[test]
    fn slashes_in_strings_and_characters_are_code() {
        for text in [
            "let a = \"http://x\";",
            "let a = r#\"// \"quoted\" \"#;",
            "let a = ['\"', '/', '\\''];",
            "b\"//\"",
        ] {
            assert_eq!(of(text), [(text.into(), None)], "{text}");
        }
        let lines = of("let a = \"one\n// two\";\nfn f<'a>() {} // three");
        assert_eq!(lines[1], ("// two\";".into(), None));
        assert_eq!(lines[2].1.as_deref(), Some("// three"));
    }

    #[test]
    fn text_of_doc_comments_is_without_slashes() {
        let docs: Vec<_> = split("/// One.\n//!Two.\n//// Three.\n// Four.\nlet a = 1; /// Five.")
            .iter()
            .map(|l| l.doc().map(str::to_owned))
            .collect();
        assert_eq!(docs, [Some("One.".into()), Some("Two.".into()), None, None, None]);
    }
}
