//! `[graders.NAME]`: a grader of the operator's own.

use datasets::settings::{any_above, choice, settings, whole};

use crate::grade::lean::JailChoice;
use crate::pool::MAX_WORKERS;

use datasets::is_grader_name;

settings! {
    /// A grader of the operator's own.
    pub struct CustomSettings {
        /// Program and arguments. It reads a line of JSON for each item from its standard input, and writes a line with the reward; docs/rewards.md describes both. It stays for
        /// the next items, and is started again if it ends.
        pub command: Vec<String>,
        /// Address of an HTTP server that rewards an item, instead of command.
        pub url: Option<String>,
        /// The form of a request to url.
        ///   verify    an item as POST /v1/verify takes it
        ///   openrlhf  OpenRLHF's remote_rm_url
        ///   slime     slime's --rm-url
        ///   nemo-gym  /verify of a resources server of NeMo Gym
        pub form: RequestForm,
        /// Number of processes, or of requests at a time. 0: the number of worker threads.
        pub workers: usize => whole(0, MAX_WORKERS as u64),
        /// Time limit for an item, in seconds by the clock. An item that takes longer has no reward.
        pub seconds: f64 = 30.0 => any_above(0.0),
        /// Variables of the verifier's environment that the program gets, besides PATH: ["HOME", "OPENAI_API_KEY"].
        pub env: Vec<String>,
        /// Files on which rewards depend. Verdicts are cached under the digest of their content, and the program is started again when it changes. If it is empty, the files
        /// that command names.
        pub files: Vec<String>,
        /// A text that stands for what rewards depend on, instead of files, such as the name of a model that judges.
        pub version: Option<String>,
        /// Whether equal items always get equal rewards. If not, rewards are cached in memory only.
        pub deterministic: bool = true,
        /// What keeps the program from the rest of the machine: none, or bubblewrap (no network, no other processes, and of people's files only `files` and what command names).
        pub jail: JailChoice = JailChoice::None,
    }
}

choice! {
    /// The form of a request to a server.
    pub enum RequestForm {
        /// An item as `POST /v1/verify` takes it.
        #[default]
        Verify = "verify",
        /// OpenRLHF's.
        OpenRlhf = "openrlhf",
        /// slime's.
        Slime = "slime",
        /// NeMo Gym's.
        NemoGym = "nemo-gym",
    }
}

impl CustomSettings {
    /// Checks the settings of the grader `name`.
    ///
    /// # Errors
    /// The key at fault, within its section, and what to do. The key is empty if it is the name.
    pub fn check(&self, name: &str) -> Result<(), (&'static str, String)> {
        if !is_grader_name(name) {
            let form = "a grader's name is at most 32 lower-case letters, digits and underscores, a letter first, and not math, code, program or lean";
            return Err(("", form.to_owned()));
        }
        match (&self.url, &self.command[..]) {
            (Some(_), [_, ..]) => Err(("url", "give command or url, not both".to_owned())),
            (None, []) => Err((
                "command",
                "it is missing: give the program with its arguments, such as [\"python3\", \"reward.py\"], or url".to_owned(),
            )),
            (Some(url), []) if !is_address(url) => Err((
                "url",
                "it must begin with http:// or https://, and have a host".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

fn is_address(url: &str) -> bool {
    let url = reqwest::Url::parse(url).ok();
    url.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}
