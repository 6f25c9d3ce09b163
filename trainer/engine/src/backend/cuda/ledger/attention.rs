//! The cost of attention. It depends on the batch: the kernels' grids give the number of blocks, and spans and tiles in memory give what each block computes.
//!
//! A block computes pairs of a query and a key, in whole tiles. For a pair and a head, the forward pass makes two products of a head's width: `q·k`, and its
//! weight times `v`. The gradient of the queries takes three, and that of keys and values four.

use std::collections::BTreeMap;

use super::cost::{CostSum, Unit};

/// Bytes of the kernels' `struct Span`.
const SPAN: u64 = 4 * 5;
/// Queries of a tile in bf16, or keys in the gradient of keys and values.
const ROWS: u64 = 64;
/// The same in f32.
const FLOAT_ROWS: u64 = 32;
/// Keys, or queries, of a streamed tile in f32.
const FLOAT_COLUMNS: u64 = 16;
/// Bytes of the kernels' `struct KeyTile`.
const KEY_TILE: u64 = 4 * 8;
/// Bytes of a segment of a span's keys.
const SEGMENT: u64 = 8;

/// Sizes of one call.
#[derive(Debug, Clone, Copy)]
struct Shape {
    heads: u64,
    kv_heads: u64,
    width: u64,
    /// The maximum number of keys of a query.
    window: u64,
    /// Rows of a block's tile, and of the tiles that are streamed past it.
    tile: [u64; 2],
}

/// Adds the cost of one of attention's kernels.
pub(super) fn add(sum: &mut CostSum<'_>, kernel: &str) {
    if kernel == "attention_add_parts" {
        return add_parts(sum);
    }
    let (heads, width) = (sum.n("heads"), sum.n("head_dim"));
    match kernel {
        "attention_delta" => {
            let rows = sum.n("rows");
            let n = rows * heads * width;
            sum.read("dy", n);
            sum.read("y", n);
            sum.write("delta", rows * heads);
            sum.cost.flops += 2 * n;
        }
        "attention_combine" => {
            let count = sum.grid(0);
            let spans = spans(sum, count);
            let rows = heads * spans.iter().filter(|[queries, ..]| *queries > 0).count() as u64;
            let partial = rows * sum.n("splits") * (width + 2);
            sum.cost.reads += SPAN * count;
            sum.read("partial", partial);
            sum.write("y", rows * width);
            sum.write("lse", rows);
            sum.cost.flops += 3 * partial;
        }
        _ => {
            let window = match sum.n("window") {
                0 => u64::MAX,
                window => window,
            };
            let bf16 = sum.element("q") == 2;
            let columns = match kernel {
                "attention_prefill" if width <= 128 => 64,
                "attention_prefill" => 32,
                "attention_backward_q" if width <= 64 => 64,
                "attention_backward_q" if width <= 128 => 32,
                "attention_backward_kv" if width <= 128 => 32,
                _ => 16,
            };
            let shape = Shape {
                heads,
                kv_heads: sum.n("kv_heads"),
                width,
                window,
                tile: match bf16 {
                    true => [ROWS, columns],
                    false => [FLOAT_ROWS, FLOAT_COLUMNS],
                },
            };
            if bf16 {
                sum.cost.unit = Unit::Mma;
            }
            match kernel {
                "attention_decode" => decode(sum, shape),
                "attention_prefill" => queries(sum, shape, 2, false),
                "attention_backward_q" => queries(sum, shape, 3, true),
                "attention_backward_kv" => keys(sum, shape),
                _ => sum.mistake = Some("it is not listed".to_owned()),
            }
        }
    }
}

/// The first `count` records of words that a parameter points to.
fn records<const WORDS: usize>(sum: &mut CostSum<'_>, name: &str, count: u64) -> Vec<[u64; WORDS]> {
    let words = sum.words(name, 0, WORDS as u64 * count);
    let records = words.as_chunks().0.iter();
    records.map(|record| record.map(u64::from)).collect()
}

/// The kernels' `struct Span`s: queries, keys and segments of each.
fn spans(sum: &mut CostSum<'_>, count: u64) -> Vec<[u64; 3]> {
    let spans = records(sum, "spans", count).into_iter();
    spans
        .map(|[_, queries, keys, _, segments]| [queries, keys, segments])
        .collect()
}

/// Single queries: each reads its keys and values once, for all heads that share them.
fn decode(sum: &mut CostSum<'_>, shape: Shape) {
    let count = sum.grid(0);
    let (mut active, mut seen, mut segments, mut most) = (0, 0, 0, 0);
    for [queries, keys, of_span] in spans(sum, count) {
        if queries > 0 {
            let keys = keys.min(shape.window);
            active += 1;
            seen += keys;
            segments += of_span;
            most = most.max(keys);
        }
    }
    let splits = sum.n("splits");
    let kv = seen * shape.kv_heads * shape.width;
    sum.read("q", active * shape.heads * shape.width);
    sum.read("k", kv);
    sum.read("v", kv);
    sum.cost.reads += SPAN * count + SEGMENT * segments;
    sum.write("partial", active * shape.heads * splits * (shape.width + 2));
    sum.cost.flops += 4 * seen * shape.heads * shape.width;
    sum.cost.longest_block =
        4 * most.div_ceil(splits.max(1)) * shape.heads / shape.kv_heads.max(1) * shape.width;
}

/// Tiles of queries, with the keys that each tile attends to.
fn queries(sum: &mut CostSum<'_>, shape: Shape, products: u64, backward: bool) {
    let count = sum.grid(0);
    let tiles: Vec<[u64; 2]> = records(sum, "tiles", count);
    let count = tiles.iter().map(|[span, _]| span + 1).max();
    let spans = spans(sum, count.unwrap_or(0));
    if sum.mistake.is_some() {
        return;
    }
    let [rows, columns] = shape.tile;
    let (mut count, mut pairs, mut most) = (0, 0, 0);
    // For each span, the keys that any of its tiles attends to.
    let mut read: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    for [number, first] in tiles {
        let [all, keys, _] = spans[number as usize];
        let mut of_block = 0;
        for first in (first..all.min(first + ROWS)).step_by(rows as usize) {
            let position = keys - all + first;
            let queries = rows.min(all - first);
            let from = (position + 1).saturating_sub(shape.window);
            let to = position + queries;
            let start = from / columns * columns;
            of_block += rows * (to - start).next_multiple_of(columns);
            count += queries;
            let range = read.entry(number).or_insert([from, to]);
            *range = [range[0].min(from), range[1].max(to)];
        }
        pairs += of_block;
        most = most.max(of_block);
    }
    let q = count * shape.heads * shape.width;
    let kv: u64 = read.values().map(|[from, to]| to - from).sum();
    let kv = kv * shape.kv_heads * shape.width;
    sum.read("q", q);
    sum.read("k", kv);
    sum.read("v", kv);
    if backward {
        sum.read("dy", q);
        sum.read("lse", count * shape.heads);
        sum.read("delta", count * shape.heads);
        sum.write("dq", q);
    } else {
        sum.write("y", q);
        sum.write("lse", count * shape.heads);
    }
    sum.cost.flops += 2 * products * shape.width * pairs * shape.heads;
    sum.cost.longest_block = 2 * products * shape.width * most;
}

/// Sums of gradients of keys and values, of several pieces for each row.
fn add_parts(sum: &mut CostSum<'_>) {
    let count = sum.grid(0);
    let tiles: Vec<[u64; 8]> = records(sum, "key_tiles", count);
    let divided = tiles.iter().filter(|[.., pieces]| *pieces > 1);
    let (rows, partial) = divided.fold((0, 0), |(rows, partial), [_, n, .., pieces]| {
        (rows + n, partial + n * pieces)
    });
    let n = rows * sum.n("width");
    let partial = 2 * partial * sum.n("width");
    sum.cost.reads += KEY_TILE * count;
    sum.read("partial", partial);
    sum.update("dk", n);
    sum.update("dv", n);
    sum.cost.flops += partial;
}

/// Pieces of tiles of keys, with the queries of each span that attend to them. The words of a `struct KeyTile`: row, rows, first visit, visits, part of each
/// visit, number of these parts, first row of the sums, pieces of the tile.
fn keys(sum: &mut CostSum<'_>, shape: Shape) {
    let count = sum.grid(0);
    let tiles: Vec<[u64; 8]> = records(sum, "key_tiles", count);
    let count = tiles.iter().map(|[_, _, visit, n, ..]| visit + n).max();
    let visits: Vec<[u64; 2]> = records(sum, "visits", count.unwrap_or(0));
    let count = visits.iter().map(|[span, _]| span + 1).max();
    let spans = spans(sum, count.unwrap_or(0));
    if sum.mistake.is_some() {
        return;
    }
    let [rows, columns] = shape.tile;
    let group = shape.heads / shape.kv_heads.max(1);
    let (mut read, mut added, mut partial, mut pairs, mut most) = (0, 0, 0, 0, 0);
    let mut visited = BTreeMap::new();
    for [_, keys, first, visit_count, part, parts, _, pieces] in tiles {
        let mut of_block = 0;
        for [number, key] in &visits[first as usize..(first + visit_count) as usize] {
            let [queries, keys_of_span, _] = spans[*number as usize];
            let position = keys_of_span - queries;
            for row in (0..keys).step_by(rows as usize) {
                let (key, keys) = (key + row, rows.min(keys - row));
                let from = key.saturating_sub(position);
                let end = (key + keys - 1).saturating_add(shape.window);
                let to = end.saturating_sub(position).min(queries);
                let passing = to.saturating_sub(from).div_ceil(columns) * group;
                let size = passing.div_ceil(parts.max(1));
                of_block += rows * size.min(passing.saturating_sub(part * size)) * columns;
            }
            visited.insert(*number, queries);
        }
        match pieces {
            1 => added += keys,
            _ => partial += keys,
        }
        read += if pieces > 0 { keys } else { 0 };
        pairs += of_block;
        most = most.max(of_block);
    }
    let queries: u64 = visited.values().sum();
    let q = queries * shape.heads * shape.width;
    let [kv, added, partial] =
        [read, added, partial].map(|rows| rows * shape.kv_heads * shape.width);
    sum.read("q", q);
    sum.read("dy", q);
    sum.read("lse", queries * shape.heads);
    sum.read("delta", queries * shape.heads);
    sum.read("k", kv);
    sum.read("v", kv);
    sum.write("partial", 2 * partial);
    sum.update("dk", added);
    sum.update("dv", added);
    // Heads wider than 128 are computed in parts, and scores and their gradients once for each part.
    let parts = match shape.tile[0] {
        ROWS => shape.width.div_ceil(128),
        _ => 1,
    };
    let of_pair = 2 * (2 * parts + 2) * shape.width;
    sum.cost.flops += of_pair * pairs * shape.kv_heads;
    sum.cost.longest_block = of_pair * most;
}
