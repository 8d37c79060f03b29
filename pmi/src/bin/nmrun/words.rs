//! Words of a file of `-configfile`.

use super::error::ValueError;

/// Returns the words of each line that has some.
///
/// Words are divided by blanks; quotation marks of both kinds and backslashes keep blanks, as in a
/// shell. `#` at the beginning of a word begins a comment.
pub(crate) fn of_file(text: &str) -> Result<Vec<Vec<String>>, ValueError> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = of_line(line).ok_or(ValueError::Quote { line: number })?;
        if !words.is_empty() {
            lines.push(words);
        }
    }
    Ok(lines)
}

fn of_line(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (_, Some(mark)) if letter == mark => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().push(letters.next()?),
            (_, Some(_)) => word.get_or_insert_default().push(letter),
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            _ if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let text = "# all\n\n-n 1 a 'b c' \"d \\\" e\" f\\ g '' # the first\n  -n 2 x#y\n";
        let expected: [&[&str]; 2] = [&["-n", "1", "a", "b c", "d \" e", "f g", ""], &["-n", "2", "x#y"]];
        assert_eq!(of_file(text).unwrap(), expected);
    }

    #[test]
    fn open_quotation_marks_are_errors() {
        for line in ["a 'b", "a \"b", "a\\"] {
            let error = of_file(&format!("x\n{line}")).unwrap_err();
            assert!(matches!(error, ValueError::Quote { line: 2 }), "{line}: {error}");
        }
    }
}
