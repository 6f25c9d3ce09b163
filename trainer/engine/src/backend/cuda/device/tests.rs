//! Tests of the driver's calls on a GPU.

use super::*;
use crate::backend::group::on_each;

/// The first GPU. If there is none, prints that the test is skipped.
fn gpu() -> Option<Box<dyn Driver>> {
    match open(0) {
        Ok(driver) => Some(driver),
        Err(reason) => {
            eprintln!("SKIPPED: a driver's calls on a GPU: {reason}");
            None
        }
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn sent(gpu: &mut dyn Driver, values: &[f32]) -> Address {
    let address = gpu.allocate(4 * values.len()).unwrap();
    gpu.write(address, &bytes(values)).unwrap();
    address
}

fn read(gpu: &mut dyn Driver, from: Address, count: usize) -> Vec<f32> {
    let mut bytes = vec![0; 4 * count];
    gpu.read(from, &mut bytes).unwrap();
    let words = bytes.as_chunks().0.iter();
    words.map(|word| f32::from_le_bytes(*word)).collect()
}

#[test]
fn written_memory_is_read_back() {
    let Some(mut gpu) = gpu() else { return };
    let gpu = gpu.as_mut();
    // More bytes than all slots of the staging memory together.
    let written: Vec<u8> = (0..20_000_003_u32).map(|i| (i % 251) as u8).collect();
    let mut back = vec![0; written.len()];
    let [from, to] = [0; 2].map(|_| gpu.allocate(written.len()).unwrap());
    gpu.write(from, &written).unwrap();
    gpu.copy(to, from, written.len()).unwrap();
    gpu.zero(to + 3, 1001).unwrap();
    gpu.zero(to + 4096, 4096).unwrap();
    gpu.read(to, &mut back).unwrap();
    let mut expected = written;
    expected[3..1004].fill(0);
    expected[4096..8192].fill(0);
    assert!(back == expected);
    gpu.free(from);
    assert!(matches!(gpu.allocate(1 << 60), Err(Fault::Memory { .. })));
}

#[test]
fn recorded_work_runs_when_it_is_replayed() {
    let Some(mut gpu) = gpu() else { return };
    let gpu = gpu.as_mut();
    let x = sent(gpu, &[1.0, 2.0, 3.0]);
    let launch = Launch {
        grid: [1, 1, 1],
        block: 256,
        shared: 0,
    };
    let args = [Arg::Address(x), Arg::Size(3), Arg::Float(2.0)];
    gpu.launch("scale<float>", launch, &args).unwrap();
    assert_eq!(read(gpu, x, 3), [2.0, 4.0, 6.0]);
    assert!(gpu.record().unwrap());
    gpu.launch("scale<float>", launch, &args).unwrap();
    let recording = gpu.recorded().unwrap();
    assert_eq!(read(gpu, x, 3), [2.0, 4.0, 6.0]);
    gpu.replay(recording).unwrap();
    gpu.replay(recording).unwrap();
    assert_eq!(read(gpu, x, 3), [8.0, 16.0, 24.0]);
    // An operation that cannot be recorded fails, and the recording with it. The device remains usable.
    gpu.record().unwrap();
    assert!(gpu.allocate(4).is_err());
    assert!(gpu.recorded().is_err());
    gpu.forget();
    assert!(gpu.replay(recording).is_err());
    assert_eq!(read(gpu, x, 3), [8.0, 16.0, 24.0]);
}

#[test]
fn a_gpu_that_is_connected_exchanges_with_itself() {
    let Some(mut gpu) = gpu() else { return };
    if let Err(why) = nccl::find() {
        eprintln!("SKIPPED: an exchange by NCCL: {why}");
        return;
    }
    let alone: Arc<dyn Group> = Arc::new(crate::backend::group::Alone);
    assert!(gpu.connect(&alone).unwrap());
    let gpu = gpu.as_mut();
    let values: Vec<f32> = (0..1 << 20).map(|i| i as f32).collect();
    let from = sent(gpu, &values);
    let to = gpu.allocate(4 * values.len()).unwrap();
    let part = |address| {
        [Bytes {
            address,
            len: 4 * values.len(),
        }]
    };
    let mut free = Vec::new();
    for round in 0..1000 {
        gpu.zero(to, 4 * values.len()).unwrap();
        gpu.exchange(&part(from), &part(to)).unwrap();
        if round % 100 == 0 {
            assert_eq!(read(gpu, to, values.len()), values);
            free.push(gpu.memory().unwrap().0);
        }
    }
    assert_eq!(free[1], free[9], "{free:?}");
}

#[test]
fn ranks_on_one_gpu_are_not_connected() {
    if gpu().is_none() {
        return;
    }
    let connected = on_each(2, std::time::Duration::from_secs(60), |ranks| {
        open(0).unwrap().connect(&ranks).unwrap()
    });
    assert_eq!(connected, [false, false]);
}
