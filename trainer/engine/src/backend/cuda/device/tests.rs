//! An exchange of a GPU with itself. `rapid doctor --gpu-checks` has the other tests of the driver.

use super::*;
use crate::backend::ranks::alone;

#[test]
fn a_gpu_that_is_connected_exchanges_with_itself() {
    let found = nccl::find().map_err(EngineError::Device);
    let mut gpu = match found.and_then(|_| open(0)) {
        Ok(gpu) => gpu,
        Err(reason) => {
            eprintln!("SKIPPED: an exchange by NCCL: {reason}");
            return;
        }
    };
    assert!(gpu.connect(&alone()).unwrap());
    let values: Vec<u8> = (0..4 << 20).map(|i| (i % 251) as u8).collect();
    let len = values.len();
    let [from, to] = [0; 2].map(|_| gpu.allocate(len).unwrap());
    gpu.write(from, &values).unwrap();
    let [sent, received] = [from, to].map(|address| [Bytes { address, len }]);
    let mut free = Vec::new();
    for round in 0..1000 {
        gpu.zero(to, len).unwrap();
        gpu.exchange(&sent, &received).unwrap();
        if round % 100 == 0 {
            let mut bytes = vec![0; len];
            gpu.read(to, &mut bytes).unwrap();
            assert!(bytes == values, "round {round}");
            free.push(gpu.memory().unwrap().0);
        }
    }
    assert_eq!(free[1], free[9], "{free:?}");
}
