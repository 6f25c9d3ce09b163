//! The GPU compared with the CPU on the same numbers, and what must hold on a GPU whatever its rounding.

use engine::parity::device::{
    Claim, Compared, Extent, Open, Sizes, phases, recordings, repeated_step, true_sizes, with_cpu,
};
use engine::{Device, Dtype};
use serde_json::json;

use super::{Check, GpuCheck};
use crate::cmd::args::DeviceArgs;
use crate::cmd::paragraph;

/// What to do about a GPU with wrong results.
const REPORT: &str =
    "do not train on this device; please report this with the GPU's name and `rapid doctor --json`";

/// The given checks, each in both number types unless one is set. None where the CPU computes, unless checks were asked for.
pub(super) fn checks(args: &DeviceArgs, wanted: &[GpuCheck], quick: bool) -> Vec<Check> {
    let options = args.options();
    // A device that does not exist has its line already.
    if options.device.memory().is_none() {
        return Vec::new();
    }
    let dtypes: &[Dtype] = match (args.dtype.as_str(), options.dtype) {
        ("auto", _) => &[Dtype::F32, Dtype::Bf16],
        (_, Dtype::F32) => &[Dtype::F32],
        (_, Dtype::Bf16) => &[Dtype::Bf16],
    };
    let extent = if quick || options.device == Device::Emulated {
        Extent::Reduced
    } else {
        Extent::Full
    };
    wanted
        .iter()
        .flat_map(|check| dtypes.iter().map(|dtype| (*check, *dtype)))
        .flat_map(|(check, dtype)| made(check, options.device, dtype, extent))
        .collect()
}

/// Makes a check. Some have several lines.
fn made(check: GpuCheck, device: Device, dtype: Dtype, extent: Extent) -> Vec<Check> {
    let open: Open<'_> = &|dtype| device.open(None, dtype, None);
    let name = match check {
        GpuCheck::Parity => "gpu",
        GpuCheck::Sizes => "gpu sizes",
        GpuCheck::Graphs => "gpu graphs",
        GpuCheck::Repeat => "gpu repeats",
        GpuCheck::Phases => "gpu phases",
    };
    let what = format!("{name}, {}", dtype.name());
    let claimed = |claim: Claim| match claim {
        Ok(found) => vec![Check::ok(&what, found)],
        Err(found) => vec![Check::fail(&what, found, REPORT)],
    };
    let result = match check {
        GpuCheck::Parity => with_cpu(open, dtype, extent).map(|found| vec![verdict(&what, &found)]),
        GpuCheck::Sizes => true_sizes(open, dtype, extent).map(|found| sizes(&what, &found)),
        GpuCheck::Graphs => recordings(open, dtype, extent).map(claimed),
        GpuCheck::Repeat => repeated_step(open, dtype, extent).map(claimed),
        GpuCheck::Phases => phases(open, dtype, extent).map(claimed),
    };
    result.unwrap_or_else(|error| {
        let remedy = "--device cpu computes the same without it";
        vec![Check::fail(&what, paragraph(&error.into()), remedy)]
    })
}

/// A line for what was compared, and one for each case that the memory does not allow.
fn sizes(what: &str, found: &Sizes) -> Vec<Check> {
    let mut checks = vec![verdict(what, &found.compared)];
    checks.extend(found.left_out.iter().map(|case| {
        Check::warn(
            what,
            format!("not checked: {case}"),
            "a GPU with more free memory checks this too",
        )
    }));
    checks
}

fn verdict(what: &str, found: &[Compared]) -> Check {
    let differing: Vec<String> = found
        .iter()
        .filter(|result| !result.agrees())
        .map(|it| {
            let (what, distance, limit) = (&it.what, it.distance, it.limit);
            format!("{what} (difference {distance:.1e}, tolerance {limit:.0e})")
        })
        .collect();
    let check = if differing.is_empty() {
        let ratios = found.iter().map(|result| result.distance / result.limit);
        let largest = 100.0 * ratios.fold(0.0, f64::max);
        Check::ok(
            what,
            format!(
                "{} results equal the CPU's within rounding; the largest difference is {largest:.0} % of the tolerance",
                found.len()
            ),
        )
    } else {
        Check::fail(
            what,
            format!(
                "{} of {} results differ from the CPU's by more than rounding: {}",
                differing.len(),
                found.len(),
                differing[..differing.len().min(3)].join(", ")
            ),
            REPORT,
        )
    };
    Check {
        figures: json!(found),
        ..check
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn compared(what: &str, distance: f64) -> Compared {
        Compared {
            what: what.into(),
            distance,
            limit: 1e-4,
        }
    }

    #[test]
    fn a_failure_names_the_results_that_differ() {
        let bad = [compared("norm", 1e-6), compared("gate", f64::INFINITY)];
        let check = verdict("gpu, f32", &bad);
        assert_eq!(
            check.found,
            "1 of 2 results differ from the CPU's by more than rounding: gate (difference inf, tolerance 1e-4)"
        );
        assert_eq!(check.state, State::Fail);
        // JSON has no infinity.
        assert_eq!(check.figures[1]["what"], "gate");
    }

    #[test]
    fn what_the_memory_does_not_allow_is_not_a_pass() {
        let found = Sizes {
            compared: vec![compared("norm", 1e-6)],
            left_out: vec!["a large cache, which needs 9.6 GB of 7.0 GB that are free".into()],
        };
        let [done, left_out] = sizes("gpu sizes, f32", &found).try_into().unwrap();
        assert_eq!(done.state, State::Ok);
        assert_eq!(left_out.state, State::Warn);
        assert!(left_out.found.starts_with("not checked: a large cache"));
    }
}
