//! Tests of the token for the hub: its sources, the hosts that receive it, and the error if the hub refuses it.

use super::*;

#[tokio::test]
async fn the_error_for_a_gated_repository_names_the_login_and_the_licence() {
    let home = tempfile::tempdir().unwrap();
    let server = serve(vec![], vec![Answer::Status(401)]).await;
    let fetcher = from_hub(home.path(), &server);
    let error = model(&fetcher, "o/gated").await.unwrap_err();
    assert!(
        error.contains("o/gated@main")
            && error.contains("accept the licence")
            && error.contains("`hf auth login`")
            && error.contains("HF_TOKEN"),
        "{error}"
    );
}

#[tokio::test]
async fn the_token_is_sent_to_the_hub_and_to_no_other_host() {
    let home = tempfile::tempdir().unwrap();
    let body = body();
    let hub = serve(vec![], vec![Answer::Status(404)]).await;
    let other = serve(body.clone(), vec![Answer::Whole]).await;
    let sources = vec![repository("main", &["weights.bin"]), url(&other.address)];
    let mut fetcher = from_hub(home.path(), &hub);
    fetcher.hub_token = Some("hf_secret".to_owned());

    fetcher
        .fetch_manifest(&manifest(&body, sources), &NoProgress)
        .await
        .unwrap();

    let sent = |server: &Server| server.tokens.lock().unwrap().clone();
    assert_eq!(sent(&hub), [Some("bearer hf_secret".to_owned())]);
    assert_eq!(sent(&other), [None]);
}

#[tokio::test]
async fn a_token_that_cannot_be_sent_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let mut fetcher = fetcher(home.path());
    fetcher.hub_token = Some("two\nlines".to_owned());
    let outcome = fetcher.fetch(ArtifactKind::Model, "o/r", &NoProgress).await;
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("The token for the hub"), "{error}");
}

#[test]
fn the_token_and_the_cache_are_those_of_hugging_faces_own_programs() {
    let user = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = user.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    put(".cache/huggingface/token", "of-login\n");
    put("xdg/huggingface/token", "of-xdg");
    put("hf/token", "of-home");
    let named = put("named", " of-path\n");
    let of = |variables: &[(&str, &Path)]| {
        let found = Fetcher::from_variables(
            |name| {
                let wanted = variables.iter().find(|(variable, _)| *variable == name);
                wanted.map(|(_, value)| value.as_os_str().to_owned())
            },
            user.path().to_owned(),
            Some(user.path().to_owned()),
        );
        let cache = found.hub_cache.strip_prefix(user.path()).unwrap();
        (
            found.hub_token.unwrap_or_default(),
            cache.to_str().unwrap().to_owned(),
        )
    };
    let path = |name: &str| user.path().join(name);
    let (xdg, hf, cache, nothing) = (path("xdg"), path("hf"), path("elsewhere"), path("nothing"));
    let token = Path::new(" of-variable ");
    for (variables, wanted) in [
        (vec![], ("of-login", ".cache/huggingface/hub")),
        (
            vec![("XDG_CACHE_HOME", xdg.as_path())],
            ("of-xdg", "xdg/huggingface/hub"),
        ),
        (
            vec![("HF_HOME", &hf), ("XDG_CACHE_HOME", &xdg)],
            ("of-home", "hf/hub"),
        ),
        (
            vec![("HF_HOME", &hf), ("HF_HUB_CACHE", &cache)],
            ("of-home", "elsewhere"),
        ),
        (
            vec![("HF_HOME", &hf), ("HF_TOKEN_PATH", &named)],
            ("of-path", "hf/hub"),
        ),
        (
            vec![
                ("HF_HOME", &hf),
                ("HF_TOKEN_PATH", &named),
                ("HF_TOKEN", token),
            ],
            ("of-variable", "hf/hub"),
        ),
        (vec![("HF_HOME", &nothing)], ("", "nothing/hub")),
        (
            vec![("HF_HOME", Path::new("")), ("HF_TOKEN", Path::new(" "))],
            ("of-login", ".cache/huggingface/hub"),
        ),
    ] {
        let found = of(&variables);
        assert_eq!((found.0.as_str(), found.1.as_str()), wanted);
    }
}
