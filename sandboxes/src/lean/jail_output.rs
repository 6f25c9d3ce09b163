//! Gets the files of a process out of its jail: after the process, a shell writes them to the same standard output. Like all output of a jail, they may be whatever the
//! process wants.

/// The extensions of a compiled module's files: its own, and those of the server part and the private part in Lean's module system.
pub(super) const EXTENSIONS: [&str; 3] = ["olean", "olean.server", "olean.private"];

/// Separates the messages from the files. JSON escapes such a character, so no message contains it.
const MARK: &[u8] = b"\n\0files\n";

/// Runs the words after the first. Then writes the size and the content of each file with a name that starts with the first word, up to the first missing file.
const SCRIPT: &str = r#"stem=$1
shift
"$@"
status=$?
printf '\n\000files\n'
for extension in olean olean.server olean.private; do
  file=$stem.$extension
  if [ ! -f "$file" ] || [ -L "$file" ]; then break; fi
  wc -c < "$file"
  cat "$file"
done
exit "$status""#;

/// The command that runs `words` and then writes a module's files to standard output. `words` write the module to `STEM.olean`.
pub(super) fn with_files_appended(words: &[String], stem: &str) -> Vec<String> {
    let shell = ["sh", "-c", SCRIPT, "sh", stem].map(str::to_owned);
    shell.into_iter().chain(words.iter().cloned()).collect()
}

/// Splits the output of such a command into the messages and the files.
pub(super) fn split_output(mut out: Vec<u8>) -> (Vec<u8>, Vec<Vec<u8>>) {
    let Some(at) = out.windows(MARK.len()).position(|piece| piece == MARK) else {
        return (out, Vec::new());
    };
    let marked = out.split_off(at);
    let mut rest = &marked[MARK.len()..];
    let mut files = Vec::new();
    while files.len() < EXTENSIONS.len()
        && let Some((file, others)) = first(rest)
    {
        files.push(file.to_vec());
        rest = others;
    }
    (out, files)
}

/// The first file, after its size, and the bytes after it.
fn first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().take(24).position(|byte| *byte == b'\n')?;
    let size = std::str::from_utf8(&bytes[..end]).ok()?;
    let size: usize = size.trim().parse().ok()?;
    bytes[end + 1..].split_at_checked(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_compiled_files_are_separated() {
        let split = |out: &[u8]| {
            let (messages, files) = split_output(out.to_vec());
            (String::from_utf8(messages).unwrap(), files)
        };
        let none = Vec::new();
        assert_eq!(split(b"{}\n"), ("{}\n".to_owned(), none.clone()));
        let whole = b"{}\n\n\0files\n5\nolean 0\n2\n\n\0";
        let files = [&b"olean"[..], b"", b"\n\0"].map(<[u8]>::to_vec);
        assert_eq!(split(b"{}\n\n\0files\n"), ("{}\n".to_owned(), none));
        let whole: Vec<u8> = whole.iter().copied().filter(|byte| *byte != b' ').collect();
        assert_eq!(split(&whole), ("{}\n".to_owned(), files.to_vec()));
        for broken in ["5", "-1\n", "x\n", "6\nolean", "99999999999999999999999\n"] {
            let out = format!("\n\0files\n{broken}");
            assert_eq!(split(out.as_bytes()).1, Vec::<Vec<u8>>::new(), "{broken}");
        }
    }
}
