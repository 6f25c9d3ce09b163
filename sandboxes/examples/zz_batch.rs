use sandboxes::wasm::WasmSandbox;
use sandboxes::{Call, Limits, Program, Sandbox};
use std::io::BufRead;
use std::path::Path;
use std::time::Instant;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let sb = WasmSandbox::open(Path::new(&a[1]), Path::new(&a[2]), &|l| eprintln!("{l}")).unwrap();
    let threads: usize = a[4].parse().unwrap();
    let lines: Vec<String> = std::io::BufReader::new(std::fs::File::open(&a[3]).unwrap())
        .lines()
        .map(|l| l.unwrap())
        .collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let t0 = Instant::now();
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| loop {
                let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(line) = lines.get(i) else { break };
                let v: serde_json::Value = serde_json::from_str(line).unwrap();
                let calls: Vec<String> = v["calls"].as_array().unwrap().iter().map(|c| c.to_string()).collect();
                let source = v["source"].as_str().unwrap();
                let p = Program { source, entry_point: v["entry_point"].as_str().unwrap(), calls: &calls };
                let limits = Limits { fuel: 2_000_000_000_000, ..Limits::default() };
                let t = Instant::now();
                let r = if let Some(tests) = v.get("tests") {
                    let tests: Vec<String> = tests.as_array().unwrap().iter().map(|c| c.as_str().unwrap().to_string()).collect();
                    sb.run_tests(&p, v["prelude"].as_str().unwrap(), &tests, &limits)
                } else { sb.run(&p, &limits) };
                let ms = t.elapsed().as_secs_f64() * 1e3;
                match r {
                    Ok(r) => {
                        let max = r.calls.iter().map(|c| match c { Call::Returned(s) => s.len(), _ => 0 }).max().unwrap_or(0);
                        let total: usize = r.calls.iter().map(|c| match c { Call::Returned(s) => s.len(), _ => 0 }).sum();
                        let opaque = r.calls.iter().filter(|c| matches!(c, Call::Returned(s) if s.contains("$opaque"))).count();
                        let raised: Vec<_> = r.calls.iter().filter(|c| !matches!(c, Call::Returned(_))).take(2).collect();
                        println!("{} ms={ms:.2} fuel={} mem={} calls={}/{} max={max} total={total} opaque={opaque} end={:?} raised={raised:?} insz={}", v["id"], r.fuel, r.peak_memory >> 20, r.calls.len(), calls.len(), r.end, line.len());
                    }
                    Err(e) => println!("{} ERR {e}", v["id"]),
                }
            });
        }
    });
    eprintln!("{:.2} s", t0.elapsed().as_secs_f64());
}
