//! How what a process wrote in its jail comes out of it: a shell behind the process writes it to the same standard output. Like all else that comes from there, it may be what
//! the process would have it be.

/// The files of a compiled module: its own, and those of what is private in one of Lean's module system.
pub(super) const EXTENSIONS: [&str; 3] = ["olean", "olean.server", "olean.private"];

/// Stands before the files. No message holds it: in JSON, such a character is escaped.
const MARK: &[u8] = b"\n\0files\n";

/// Runs the words behind the first, then writes each file whose name the first begins, as far as there is one: its size, and what it holds.
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

/// What runs `words`, which write a module to `STEM.olean`, and hands it out.
pub(super) fn handing_out(words: &[String], stem: &str) -> Vec<String> {
    let shell = ["sh", "-c", SCRIPT, "sh", stem].map(str::to_owned);
    shell.into_iter().chain(words.iter().cloned()).collect()
}

/// What a process said, and the files that were handed out behind it.
pub(super) fn handed_out(mut out: Vec<u8>) -> (Vec<u8>, Vec<Vec<u8>>) {
    let Some(at) = out.windows(MARK.len()).position(|piece| piece == MARK) else {
        return (out, Vec::new());
    };
    let behind = out.split_off(at);
    let mut rest = &behind[MARK.len()..];
    let mut files = Vec::new();
    while files.len() < EXTENSIONS.len()
        && let Some((file, others)) = first(rest)
    {
        files.push(file.to_vec());
        rest = others;
    }
    (out, files)
}

/// A file behind its size, and what follows it.
fn first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().take(24).position(|byte| *byte == b'\n')?;
    let size: usize = std::str::from_utf8(&bytes[..end])
        .ok()?
        .trim()
        .parse()
        .ok()?;
    bytes[end + 1..].split_at_checked(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_compiled_files_are_separated() {
        let said = |out: &[u8]| {
            let (said, files) = handed_out(out.to_vec());
            (String::from_utf8(said).unwrap(), files)
        };
        let none = Vec::new();
        assert_eq!(said(b"{}\n"), ("{}\n".to_owned(), none.clone()));
        let whole = b"{}\n\n\0files\n5\nolean 0\n2\n\n\0";
        let files = [&b"olean"[..], b"", b"\n\0"].map(<[u8]>::to_vec);
        assert_eq!(said(b"{}\n\n\0files\n"), ("{}\n".to_owned(), none));
        let whole: Vec<u8> = whole.iter().copied().filter(|byte| *byte != b' ').collect();
        assert_eq!(said(&whole), ("{}\n".to_owned(), files.to_vec()));
        for broken in ["5", "-1\n", "x\n", "6\nolean", "99999999999999999999999\n"] {
            let out = format!("\n\0files\n{broken}");
            assert_eq!(said(out.as_bytes()).1, Vec::<Vec<u8>>::new(), "{broken}");
        }
    }
}
