//! The GPU beside the CPU: every kernel, then small models of each family, on the same numbers.

use engine::parity::device::{Compared, compare_gpu};
use engine::{Device, Dtype};

use super::Check;
use crate::cmd::args::DeviceArgs;
use crate::cmd::paragraph;

/// Nothing where the CPU is what computes.
pub(super) fn checks(args: &DeviceArgs) -> Vec<Check> {
    let device = match args.options() {
        Ok(options) if options.device.memory().is_some() => options.device,
        // A device that is not there has its line already.
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
    let apart: Vec<&Compared> = found.iter().filter(|one| !one.agrees()).collect();
    if apart.is_empty() {
        let furthest = found.iter().map(|one| one.distance / one.limit);
        return Check::ok(
            what,
            format!(
                "{} results are the CPU's within rounding, the furthest at {:.0} % of what it explains",
                found.len(),
                100.0 * furthest.fold(0.0, f64::max)
            ),
        );
    }
    let told = apart.iter().take(3).map(|one| {
        let (what, distance, limit) = (&one.what, one.distance, one.limit);
        format!("{what} ({distance:.1e} where {limit:.0e} is rounding)")
    });
    Check::fail(
        what,
        format!(
            "{} of {} results are not the CPU's: {}",
            apart.len(),
            found.len(),
            told.collect::<Vec<_>>().join(", ")
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
    fn a_verdict_names_what_is_apart() {
        let good = [compared("norm", 1e-6), compared("gate", 2.5e-5)];
        assert_eq!(
            verdict("gpu, f32", &good).found,
            "2 results are the CPU's within rounding, the furthest at 25 % of what it explains"
        );
        let bad = [compared("norm", 1e-6), compared("gate", f64::INFINITY)];
        let check = verdict("gpu, f32", &bad);
        assert_eq!(
            check.found,
            "1 of 2 results are not the CPU's: gate (inf where 1e-4 is rounding)"
        );
        assert!(check.remedy.is_some());
    }
}
