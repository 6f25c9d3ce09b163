//! The frame of every page: a page is complete in itself and loads nothing.

use std::fmt::Write as _;

use super::STYLE;
use super::escape::html;

/// The page with this title and body, which is HTML; `kind` is what it is a page of. `files` are the names of the files beside it, and `notes` are the last sentences of the page, as HTML.
pub(crate) fn page(kind: &str, title: &str, body: &str, files: &[String], notes: &str) -> String {
    let title = html(title);
    let files = files.iter().map(|file| html(file));
    let links = files.map(|file| format!("<a href=\"{file}\">{file}</a>"));
    let links: Vec<String> = links.collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title} · rapid</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <p class=\"kicker\">{kind}</p>\n<h1>{title}</h1>\n{body}\
         <footer><p>The numbers of this page: {}. {notes} Made by rapid {}.</p></footer>\n\
         </main>\n</body>\n</html>\n",
        links.join(", "),
        env!("CARGO_PKG_VERSION")
    )
}

/// The facts below a heading, each with its name.
pub(crate) fn facts(out: &mut String, facts: &[(&str, String)]) {
    out.push_str("<ul class=\"facts\">");
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(out, "<li>{name} <b>{}</b></li>", html(value));
    }
    out.push_str("</ul>\n");
}
