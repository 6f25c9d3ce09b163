//! The commands that rank 0 sends to the other ranks, and how these run them. Rank 0 alone has the trainer's state. The others have the model, and compute
//! their share of each command.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};

use serde::{Deserialize, Serialize};

use super::generate;
use super::thread::{self, Opened};
use crate::api::{AdamW, Device, EngineOptions, GenerateRequest, Objective};
use crate::backend::ranks::{Leader, LeaderState, ProcessGroup, Sharing, fail, next_command};
use crate::batch::Group;
use crate::error::EngineError;
use crate::infer::runner::Limits;
use crate::load;
use crate::model::Model;
use crate::train::{self, checkpoint};

/// What all ranks do. Models are named by the order in which they were opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum RankCommand {
    Open {
        model: PathBuf,
        options: EngineOptions,
    },
    Run {
        model: usize,
        command: ModelCommand,
    },
    Close {
        model: usize,
    },
    /// Rank 0 has ended.
    End,
}

/// What a model does on all ranks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum ModelCommand {
    Generate {
        base: bool,
        requests: Vec<GenerateRequest>,
    },
    Score {
        base: bool,
        groups: Vec<Group>,
        temperature: f32,
    },
    Step {
        groups: Vec<Group>,
        temperature: f32,
        adamw: AdamW,
    },
    /// Rank 0 writes the file; the others send it their moments.
    SaveState,
    LoadState {
        file: PathBuf,
    },
}

impl RankCommand {
    /// Receives the next command from rank 0.
    pub(super) fn receive(ranks: &dyn ProcessGroup) -> Result<Self, EngineError> {
        let bytes = next_command(ranks)?;
        if bytes.is_empty() {
            return Ok(Self::End);
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            EngineError::Ranks(format!(
                "rank 0 sent a command that this version does not know ({error}); all ranks must run the same version"
            ))
        })
    }

    /// Sends the command to the other ranks, and begins it.
    pub(super) fn begin<'a>(
        &self,
        leader: &'a Leader,
    ) -> Result<MutexGuard<'a, LeaderState>, EngineError> {
        let bytes = serde_json::to_vec(self)
            .map_err(|error| EngineError::Ranks(format!("a command cannot be written: {error}")))?;
        leader.begin(&bytes)
    }
}

/// The other ranks' copies of one model: they follow rank 0's commands.
#[derive(Clone)]
pub(super) struct Followers {
    pub(super) leader: Leader,
    pub(super) model: usize,
}

impl Followers {
    /// Sends a command to this model on the other ranks, and begins it.
    pub(super) fn begin(
        &self,
        command: ModelCommand,
    ) -> Result<MutexGuard<'_, LeaderState>, EngineError> {
        let model = self.model;
        RankCommand::Run { model, command }.begin(&self.leader)
    }

    /// Makes the other ranks drop this model. If the command cannot be sent, they have ended.
    pub(super) fn close(&self) {
        let model = self.model;
        drop(RankCommand::Close { model }.begin(&self.leader));
    }
}

/// The parts of its machine that a rank computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LocalDevice {
    /// The number of its GPU, if rank 0 computes on one.
    pub gpu: usize,
    /// Threads of the CPU backend; `None` uses one thread for each processor that this process may use.
    pub threads: Option<usize>,
}

/// Computes this rank's share of what rank 0's engines do, until rank 0 ends.
///
/// # Errors
/// [`EngineError::Ranks`] if the ranks lose each other or disagree, or this one panics. Errors of commands are also rank 0's, and it decides what follows.
pub fn follow(ranks: &Arc<dyn ProcessGroup>, local: LocalDevice) -> Result<(), EngineError> {
    // The other ranks may be waiting for this one, so the caller has to get an error and end them.
    catch_unwind(AssertUnwindSafe(|| run_commands(ranks, local))).unwrap_or_else(|_| {
        Err(EngineError::Ranks(format!(
            "rank {} panicked, so the ranks cannot go on; its message is printed above",
            ranks.rank()
        )))
    })
}

fn run_commands(ranks: &Arc<dyn ProcessGroup>, local: LocalDevice) -> Result<(), EngineError> {
    let mut models = BTreeMap::new();
    let mut opened = 0;
    loop {
        match RankCommand::receive(ranks.as_ref())? {
            RankCommand::Open { model, options } => {
                // An error is reported by rank 0, which then has no such model.
                if let Ok(model) = open(ranks, model, options, local) {
                    models.insert(opened, model);
                }
                opened += 1;
            }
            RankCommand::Run {
                model: number,
                command,
            } => {
                let model = models.get_mut(&number).ok_or_else(|| {
                    EngineError::Ranks(format!(
                        "rank 0 named model {number}, which does not exist here"
                    ))
                })?;
                // Other errors are rank 0's too.
                if let Err(error @ EngineError::Ranks(_)) = model.run(command) {
                    return Err(error);
                }
            }
            RankCommand::Close { model } => drop(models.remove(&model)),
            RankCommand::End => {
                ranks.finish();
                return Ok(());
            }
        }
    }
}

/// A model that this rank opened by a command of rank 0.
struct FollowerModel {
    model: Model,
    opened: Opened,
    limits: Limits,
}

fn open(
    ranks: &Arc<dyn ProcessGroup>,
    path: PathBuf,
    options: EngineOptions,
    local: LocalDevice,
) -> Result<FollowerModel, EngineError> {
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let gpu = Device::Cuda(visible_gpu(local.gpu, visible.as_deref()));
    let device = match options.device {
        Device::Cuda(_) => gpu,
        Device::Auto if gpu.available().is_ok() => gpu,
        Device::Auto => Device::Cpu,
        other => other,
    };
    let options = EngineOptions {
        device,
        threads: local.threads,
        ..options
    };
    let load = move || load::open_lazy(&path);
    let sharing = Sharing::new(ranks.clone(), options.slices.unwrap_or(1));
    let sharing = sharing.map_err(|error| fail(ranks.as_ref(), error))?;
    let (model, opened) = thread::open(options.backend(), load, &options, sharing)?;
    let limits = thread::limits(&options);
    Ok(FollowerModel {
        model,
        opened,
        limits,
    })
}

impl FollowerModel {
    fn run(&mut self, command: ModelCommand) -> Result<(), EngineError> {
        let model = &mut self.model;
        match command {
            ModelCommand::Generate { base, requests } => {
                model.release_training();
                let (tokenizer, limits) = (&self.opened.text.tokenizer, self.limits);
                model.with_adapters(!base, |model| {
                    generate::generate(model, tokenizer, &requests, limits, None)
                })
            }
            ModelCommand::Score {
                base,
                groups,
                temperature,
            } => {
                model.release_kv();
                let score = |model: &mut Model| train::score(model, &groups, temperature);
                model.with_adapters(!base, score).map(drop)
            }
            ModelCommand::Step {
                groups,
                temperature,
                adamw,
            } => {
                model.release_kv();
                let objective: Objective = Box::new(|_| Err("rank 0 has the objective".into()));
                train::step(model, &groups, temperature, objective, &adamw).map(drop)
            }
            ModelCommand::SaveState => checkpoint::send_state(model),
            ModelCommand::LoadState { file } => {
                model.release_kv();
                checkpoint::load_state(model, &file)
            }
        }
    }
}

/// The number by which a rank addresses GPU `number` of its machine. A scheduler may show each rank one GPU of its own, in `CUDA_VISIBLE_DEVICES`; it is then
/// GPU 0.
fn visible_gpu(number: usize, visible: Option<&str>) -> usize {
    match visible.map(str::trim) {
        Some(one) if !one.is_empty() && !one.contains(',') => 0,
        _ => number,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A rank with a bug.
    struct Broken;

    impl ProcessGroup for Broken {
        fn rank(&self) -> usize {
            1
        }

        fn size(&self) -> usize {
            2
        }

        fn deadline(&self) -> Duration {
            Duration::from_secs(60)
        }

        fn all_to_all(&self, _: &[&[u8]]) -> Result<Vec<Vec<u8>>, EngineError> {
            panic!("a bug")
        }
    }

    #[test]
    fn a_panic_is_an_error_that_ends_the_ranks() {
        let ranks: Arc<dyn ProcessGroup> = Arc::new(Broken);
        let error = follow(&ranks, LocalDevice::default()).expect_err("a panic");
        assert!(matches!(error, EngineError::Ranks(_)), "{error}");
        assert!(error.to_string().contains("rank 1 panicked"), "{error}");
    }

    #[test]
    fn a_rank_that_sees_one_gpu_uses_that() {
        for (visible, expected) in [
            (None, 3),
            (Some(""), 3),
            (Some("0,1,2,3"), 3),
            (Some("2"), 0),
        ] {
            assert_eq!(visible_gpu(3, visible), expected, "{visible:?}");
        }
    }
}
