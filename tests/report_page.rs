//! The pages of `rapid report` in a browser: nothing is cut off on a narrow screen, in the light and in the dark scheme.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tests::{programs, repository};
use trainer::report::{self, RunData};
use trainer::sweep_report;

/// A name that is longer than any line of a narrow screen, and cannot be broken.
const LONG: &str = "a_model_whose_name_is_one_word_and_much_longer_than_a_telephone_is_wide-135M-Instruct.Q4_1.gguf";

/// Measures the page in a frame of this width: it lists the elements that are wider than the frame, except inside of a box that scrolls. `details` are opened first.
const WRAPPER: &str = r#"<!doctype html>
<html><head><meta name="color-scheme" content="light dark"></head><body style="margin:0"><pre id="measured"></pre>
<iframe style="width:WIDTHpx;height:900px;border:0" srcdoc="PAGE"></iframe>
<script>
addEventListener('load', () => {
  const frame = document.querySelector('iframe');
  const page = frame.contentDocument;
  page.querySelectorAll('details').forEach(details => details.open = true);
  const scrolls = element => element.closest('.scroll, pre, head, svg > *');
  const wide = [...page.querySelectorAll('body *')]
    .filter(element => !scrolls(element) && element.getBoundingClientRect().right > WIDTH + 0.5)
    .map(element => element.tagName + '.' + element.getAttribute('class') + ': ' + element.textContent.slice(0, 40));
  document.getElementById('measured').textContent = JSON.stringify({
    wide,
    scroll_width: page.documentElement.scrollWidth,
    text: page.body.innerText.length,
    dark: frame.contentWindow.matchMedia('(prefers-color-scheme: dark)').matches,
    paper: getComputedStyle(page.body).backgroundColor,
    ink: getComputedStyle(page.body).color,
  });
});
</script></body></html>"#;

const CHROMIUM_OPTIONS: &str = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update
    --disable-sync --disable-dev-shm-usage --hide-scrollbars --window-size=1400,1000 --dump-dom";

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|program| program.is_file());
    if program.is_none() {
        eprintln!("SKIPPED: pages in a browser: there is no Chromium (apt-get install chromium)");
    }
    program
}

/// The committed runs of the study's pilot, which is a sweep, with long names in a folder with a long name; the last of its runs failed.
fn sweep(home: &Path) -> PathBuf {
    const ARM: &str = "an_arm_whose_name_is_one_word_of_sixty_letters_and_digits-h4";
    let root = home.join(format!("sweep-{LONG}"));
    fs::create_dir(&root).unwrap();
    let runs = repository::root().join("tests/golden/pilot-1.tar.gz");
    let script = format!(
        "set -e; tar -xzf '{}' --transform 's/rapid-h4/{ARM}/'
        find . -type f -exec sed -i -e 's/rapid-h4/{ARM}/g' -e 's/AMD EPYC/{LONG}/' -e 's#starter-math-400/#{LONG}/#g' \
            -e 's#^name = \"smollm2.*#path = \"models/{LONG}\"#' -e 's#^\"model.name\".*#\"model.path\" = \"models/{LONG}\"#' {{}} +
        sed -i -e '$ s/\"finish\"/\"fail\",\"reason\":\"{LONG}{LONG}\"/' manifest.jsonl",
        runs.display()
    );
    let mut sh = Command::new("sh");
    let _ = programs::run(sh.args(["-c", &script]).current_dir(&root)).success();
    root
}

/// One of these runs in a folder with a long name, with an alarm and with samples.
fn run(sweep: &Path, arm: &str) -> RunData {
    let mut runs = fs::read_dir(sweep.join("runs")).unwrap().flatten();
    let root = runs.find(|run| run.file_name().to_string_lossy().starts_with(arm));
    let root = root.unwrap().path();
    let alarm = json!({"step": 6, "alarm": "length-collapse", "state": "raised", "text": LONG});
    fs::write(root.join("alarms.jsonl"), format!("{alarm}\n")).unwrap();
    fs::create_dir(root.join("samples")).unwrap();
    for (step, reward) in [(0, 0), (32, 1)] {
        let sample = json!({
            "task": format!("{LONG}/1"), "sample": 0, "prompt": format!("Question: {LONG}"), "completion": LONG.repeat(4), "reward": reward,
            "any_form": 1.0, "verdict": "malformed", "detail": {}, "tokens": 9, "logp": -1.0, "finish": "stop",
        });
        let file = root.join(format!("samples/eval-{step}.jsonl"));
        fs::write(file, format!("{sample}\n")).unwrap();
    }
    RunData::read(&root).unwrap()
}

/// The measurements of [`WRAPPER`] for a page at this width.
fn measured(chromium: &Path, page: &Path, width: usize, dark: bool) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(page).unwrap();
    let text = text.replace('&', "&amp;").replace('"', "&quot;");
    let wrapper = folder.path().join("wrapper.html");
    let wrapped = WRAPPER
        .replace("WIDTH", &width.to_string())
        .replace("PAGE", &text);
    fs::write(&wrapper, wrapped).unwrap();
    let profile = folder.path().join("profile");
    let scheme = u8::from(!dark);
    let output = Command::new(chromium)
        .args(CHROMIUM_OPTIONS.split_whitespace())
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", wrapper.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let measured = dom
        .split("<pre id=\"measured\">")
        .nth(1)
        .and_then(|rest| rest.split("</pre>").next())
        .unwrap_or_default()
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&measured)
        .unwrap_or_else(|error| panic!("{error}: {measured:?}\n{stderr}"))
}

#[test]
fn nothing_of_a_report_is_cut_off_at_390_pixels_in_light_or_dark() {
    let Some(chromium) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let sweep = sweep(folder.path());
    let out = |name: &str| folder.path().join(name);
    let of_sweep = sweep_report::write(&sweep, &out("sweep"), true).unwrap();
    let runs = ["pg", "an_arm"].map(|arm| run(&sweep, arm));
    let of_two = report::write(&runs, &out("two")).unwrap();
    let of_one = report::write(&runs[1..], &out("one")).unwrap();
    for page in [of_sweep, of_two, of_one] {
        for (width, dark) in [(390, false), (390, true), (1280, false)] {
            let measured = measured(&chromium, &page, width, dark);
            let context = format!("{} at {width}: {measured:#}", page.display());
            assert!(measured["text"].as_u64().unwrap() > 2_000, "{context}");
            let scroll_width = measured["scroll_width"].as_u64().unwrap();
            assert!(scroll_width <= width as u64, "{context}");
            assert_eq!(measured["wide"], json!([]), "{context}");
            assert_eq!(measured["dark"], json!(dark), "{context}");
            let colours = (measured["paper"].as_str(), measured["ink"].as_str());
            let expected = if dark {
                ("rgb(20, 22, 26)", "rgb(235, 232, 225)")
            } else {
                ("rgb(251, 250, 246)", "rgb(29, 28, 26)")
            };
            assert_eq!(colours, (Some(expected.0), Some(expected.1)), "{context}");
        }
    }
}
