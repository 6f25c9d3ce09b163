//! `rapid-verifier serve`.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use verifier::config::{KEYS, Listen};
use verifier::service::serve;
use verifier::setup;

use super::{ConfigArgs, prepare_in_subprocess, print, runtime};

/// Answer POST /v1/verify over HTTP
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  rapid-verifier serve
  rapid-verifier serve --listen 127.0.0.1:0          a free port; the line `listening on http://…` names it
  rapid-verifier serve --listen localhost:8701       a name; without a token, all its addresses have to be this machine's own
  rapid-verifier serve --listen 0.0.0.0:8700 --token-file token --require math,code
  rapid-verifier serve --config deploy/verifier.toml --set limits.items=100
  rapid-verifier serve --set code.sandbox=docker      programs in containers; scripts/docker.sh builds the image
  rapid-verifier serve --set lean.project=sandboxes/lean      proofs, once that project is built

deploy/verifier.toml, in the repository, explains every key of the configuration and has its default. The keys are
{}", KEYS.list()))]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Host and port to listen on; the host is an IP address or a name, and port 0 chooses a free port [default: 127.0.0.1:8700]
    #[arg(long, value_name = "ADDR")]
    listen: Option<Listen>,
    /// File with a token in its first line, which clients must send; the environment's RAPID_VERIFIER_TOKEN may hold the token itself instead
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The token that clients must send, if there is no file
    #[arg(
        long,
        env = "RAPID_VERIFIER_TOKEN",
        hide_env_values = true,
        hide = true,
        value_name = "TOKEN"
    )]
    token: Option<String>,
    /// Graders without which /readyz does not answer 200: math, code, lean
    #[arg(long, value_delimiter = ',', value_name = "GRADERS")]
    require: Vec<String>,
    /// Stop when stdin ends, so that the verifier ends with the program that started it, however that ends
    #[arg(long)]
    until_stdin_ends: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let require = toml::Value::from(args.require.clone());
    let mut config = args
        .config
        .resolve_with((!args.require.is_empty()).then(|| format!("require={require}")))?;
    if let Some(listen) = &args.listen {
        config.listen.clone_from(listen);
    }
    config.token_file = args.token_file.clone().or(config.token_file);
    tracing::debug!(
        "configuration:\n{}",
        toml::to_string(&config).unwrap_or_default()
    );

    let (service, addresses, open) = setup::service(&config, args.token.clone())?;
    let names: Vec<String> = service
        .judge
        .registry
        .datasets()
        .into_iter()
        .map(|set| format!("{} ({})", set.name, set.train + set.eval))
        .collect();
    tracing::info!("data sets: {}", names.join(", "));
    let open = prepare_in_subprocess(&config, open);
    let until_stdin_ends = args.until_stdin_ends;
    let served = runtime()?.block_on(async {
        let listener = bind(&addresses).await.map_err(|error| {
            let what = format!("cannot listen on {}: {}", config.listen, hint(error.kind()));
            anyhow::Error::new(error).context(what)
        })?;
        let address = listener
            .local_addr()
            .context("the listening address is not known")?;
        let signals = handled_signals().context("Ctrl-C and SIGTERM cannot be listened for")?;
        service
            .judge
            .prepare_in_background(open)
            .context("no thread could be started to prepare the graders")?;
        // The one line of stdout: scripts read the port from it.
        print(&format!("listening on http://{address}\n"))?;
        serve(listener, &service, asked_to_stop(signals, until_stdin_ends)).await;
        Ok(ExitCode::SUCCESS)
    });
    service.judge.flush();
    served
}

/// Listens on the first of the addresses that this machine has. If another program uses that address, this fails: clients try the addresses in the same order, and
/// would reach that program.
async fn bind(addresses: &[SocketAddr]) -> std::io::Result<TcpListener> {
    let mut last_error = std::io::Error::from(ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpListener::bind(address).await {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::AddrNotAvailable | ErrorKind::Unsupported
                ) =>
            {
                last_error = error;
            }
            other => return other,
        }
    }
    Err(last_error)
}

/// What to do if an address cannot be used.
fn hint(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AddrInUse => {
            "another program uses the port; --listen 127.0.0.1:0 chooses a free one"
        }
        ErrorKind::PermissionDenied => {
            "this user may not use the port; ports from 1024 on are for everyone"
        }
        ErrorKind::AddrNotAvailable => {
            "this machine does not have the address; 127.0.0.1 is the loopback address, and 0.0.0.0 stands for all addresses of the machine"
        }
        _ => "--listen 127.0.0.1:0 chooses a free port",
    }
}

/// Returns at the first Ctrl-C or SIGTERM, or, if `until_stdin_ends`, at the end of stdin. The next signal ends the process without waiting for requests.
async fn asked_to_stop(mut signals: [Signal; 2], until_stdin_ends: bool) {
    tokio::select! {
        () = next(&mut signals) => {}
        () = stdin_ended(), if until_stdin_ends => {}
    }
    tokio::spawn(async move {
        next(&mut signals).await;
        std::process::exit(130);
    });
    tracing::info!("stopping: requests in flight are finished first; Ctrl-C again ends at once");
}

/// Handlers of Ctrl-C and SIGTERM. From now on, the signals do not end the process, and one that arrives before [`next`] is not lost.
fn handled_signals() -> std::io::Result<[Signal; 2]> {
    Ok([
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    ])
}

async fn next([interrupt, terminate]: &mut [Signal; 2]) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Returns when stdin ends, however the process at its other end ends.
async fn stdin_ended() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A separate thread: a read of stdin cannot be cancelled, and the runtime would wait for one of its own threads at the end.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = sender.send(());
    });
    let _ = receiver.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bind_uses_the_first_address_of_this_machine_and_fails_if_it_is_in_use() {
        // 192.0.2.0/24 is for documentation, and no machine has it (RFC 5737).
        let (absent, local) = ("192.0.2.1:0", "127.0.0.1:0");
        let addresses = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let listener = bind(&addresses(&[absent, local])).await.unwrap();
        let taken = listener.local_addr().unwrap();
        assert!(taken.ip().is_loopback());
        let error = bind(&addresses(&[&taken.to_string(), local]))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let error = bind(&addresses(&[absent])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
    }
}
