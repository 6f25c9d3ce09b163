//! The GPU compared with the CPU on the same numbers: every kernel, then small models of each family.

use engine::parity::device::{Compared, compare_gpu};
use engine::{Device, Dtype};

use super::Check;
use crate::cmd::args::DeviceArgs;
use crate::cmd::paragraph;

/// No checks where the CPU computes.
pub(super) fn checks(args: &DeviceArgs) -> Vec<Check> {
    let device = match args.options() {
        Ok(options) if options.device.memory().is_some() => options.device,
        // A device that does not exist has its line already.
        _ => return Vec::new(),
    };
    [("f32", Dtype::F32), ("bf16", Dtype::Bf16)]
        .into_iter()
        .map(|(name, dtype)| check(device, name, dtype))
        .collect()
}

fn check(device: Device, name: &str, dtype: Dtype) -> Check {
    let what = format!("gpu, {name}");
    match compare_gpu(device, dtype) {
        Ok(found) => verdict(&what, &found),
        Err(error) => Check::fail(
            &what,
            paragraph(&error.into()),
            "--device cpu computes the same without it",
        ),
    }
}

fn verdict(what: &str, found: &[Compared]) -> Check {
    let differing: Vec<&Compared> = found.iter().filter(|result| !result.agrees()).collect();
    if differing.is_empty() {
        let ratios = found.iter().map(|result| result.distance / result.limit);
        return Check::ok(
            what,
            format!(
                "{} results equal the CPU's within rounding; the largest difference is {:.0} % of the tolerance",
                found.len(),
                100.0 * ratios.fold(0.0, f64::max)
            ),
        );
    }
    let examples = differing.iter().take(3).map(|result| {
        let (what, distance, limit) = (&result.what, result.distance, result.limit);
        format!("{what} (difference {distance:.1e}, tolerance {limit:.0e})")
    });
    Check::fail(
        what,
        format!(
            "{} of {} results differ from the CPU's by more than rounding: {}",
            differing.len(),
            found.len(),
            examples.collect::<Vec<_>>().join(", ")
        ),
        "do not train on this device; please report this with the GPU's name and `rapid doctor --json`",
    )
}

#[cfg(test)]
mod tests {
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
        let good = [compared("norm", 1e-6), compared("gate", 2.5e-5)];
        assert_eq!(
            verdict("gpu, f32", &good).found,
            "2 results equal the CPU's within rounding; the largest difference is 25 % of the tolerance"
        );
        let bad = [compared("norm", 1e-6), compared("gate", f64::INFINITY)];
        let check = verdict("gpu, f32", &bad);
        assert_eq!(
            check.found,
            "1 of 2 results differ from the CPU's by more than rounding: gate (difference inf, tolerance 1e-4)"
        );
        assert!(check.remedy.is_some());
    }
}
