//! What a launch costs: bytes and operations, from the kernel's arguments and from the indices in memory that it reads.
//!
//! **Bytes** are those that have to move between the memory and the multiprocessors. What several threads or blocks of one launch read counts once, since
//! caches hold it. Examples are a tile of queries for several blocks, and a second pass over a row of activations. A row of logits is the exception: rows of
//! the vocabulary's width do not stay in a cache, so each pass over them counts.
//!
//! **Operations** are multiplications and additions, also those for masked pairs inside tiles that are computed. Any other function counts as one.

use super::super::driver::{Arg, Launch, Product};
use super::address_space::AddressSpace;
use super::attention;
use super::signature::{Kind, Signature};
use crate::backend::Dtype;

/// The part of the device that does the arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// f32 without tensor cores.
    #[default]
    Cores,
    /// Tensor cores, by `mma.sync` in this program's kernels.
    Mma,
    /// Tensor cores, by the library's products.
    Products,
}

/// The cost of one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Bytes read.
    pub reads: u64,
    /// Bytes written.
    pub writes: u64,
    /// Multiplications and additions.
    pub flops: u64,
    /// The operations of the block with the most, if blocks differ.
    pub longest_block: u64,
    /// What computes them.
    pub unit: Unit,
}

/// Rows and columns of a tile that a block of the library's products is assumed to compute.
const PRODUCT_TILE: usize = 128;
/// Terms of a sum that the library is assumed not to split any further.
const PRODUCT_PART: usize = 256;

/// The cost of a product, and its assumed number of blocks: one for each tile. If these do not fill the device, the sums are split until they do.
pub(super) fn product(product: &Product, multiprocessors: u32) -> (Cost, u64) {
    let Product {
        rows,
        columns,
        inner,
        ..
    } = *product;
    let bytes = |n: usize, format: Dtype| (n * format.bytes()) as u64;
    let y = bytes(rows * columns, product.y.format);
    let added = if product.accumulate { y } else { 0 };
    let cost = Cost {
        reads: bytes(rows * inner, product.a.format)
            + bytes(inner * columns, product.b.format)
            + added,
        writes: y,
        flops: 2 * (rows * columns * inner) as u64,
        longest_block: 0,
        unit: match product.a.format {
            Dtype::F32 => Unit::Cores,
            Dtype::Bf16 => Unit::Products,
        },
    };
    let tiles = rows.div_ceil(PRODUCT_TILE) * columns.div_ceil(PRODUCT_TILE);
    let most_splits = (inner / PRODUCT_PART).max(1);
    let splits = (multiprocessors as usize)
        .div_ceil(tiles)
        .clamp(1, most_splits);
    (cost, (tiles * splits) as u64)
}

/// Adds up the cost of a launch from the kernel's instance, its arguments, and the memory that they point to. Stores the first mistake: a name unknown to the
/// kernel, or an index not in memory.
pub(super) struct CostSum<'a> {
    kernel: &'a str,
    launch: Launch,
    args: &'a [Arg],
    signature: &'a Signature,
    memory: &'a AddressSpace,
    pub(super) cost: Cost,
    pub(super) mistake: Option<String>,
}

impl<'a> CostSum<'a> {
    /// The cost of a launch. The error names the kernel, and says why it has no cost or what is missing.
    pub(super) fn of(
        kernel: &'a str,
        launch: Launch,
        args: &'a [Arg],
        signature: &'a Signature,
        memory: &'a AddressSpace,
    ) -> Result<Cost, String> {
        let mut sum = Self {
            kernel,
            launch,
            args,
            signature,
            memory,
            cost: Cost::default(),
            mistake: None,
        };
        sum.add_all();
        match sum.mistake {
            None => Ok(sum.cost),
            Some(what) => Err(format!("the cost of `{kernel}`: {what}")),
        }
    }

    /// The arguments of the instance's template, such as `bf16` and `64`.
    fn instance(&self) -> impl Iterator<Item = &str> {
        let (_, list) = self.kernel.split_once('<').unwrap_or_default();
        let list = list.trim_end_matches('>').split(',');
        list.map(str::trim).filter(|text| !text.is_empty())
    }

    /// The parameter's type and argument.
    fn parameter(&mut self, name: &str) -> Option<(Kind, Arg)> {
        let parameters = &self.signature.parameters;
        let number = parameters.iter().position(|p| p.name == name);
        let found = number.and_then(|i| Some((parameters[i].kind.clone(), *self.args.get(i)?)));
        if found.is_none() {
            self.mistake
                .get_or_insert_with(|| format!("it has no parameter `{name}`"));
        }
        found
    }

    /// A number among the arguments.
    pub(super) fn n(&mut self, name: &str) -> u64 {
        match self.parameter(name) {
            Some((_, Arg::Word(n))) => n.into(),
            Some((_, Arg::Size(n) | Arg::Address(n))) => n,
            _ => 0,
        }
    }

    /// Bytes of an element that a parameter points to.
    pub(super) fn element(&mut self, name: &str) -> u64 {
        let Some((Kind::Pointer(element), _)) = self.parameter(name) else {
            return 0;
        };
        let template = &self.signature.template;
        let class = template.iter().position(|class| *class == element);
        let actual = class.and_then(|number| self.instance().nth(number));
        match actual.unwrap_or(&element) {
            "bf16" => 2,
            "float" | "u32" => 4,
            "double" | "Segment" => 8,
            other => {
                let what = format!("the size of `{other}` is not known");
                self.mistake.get_or_insert(what);
                0
            }
        }
    }

    /// Adds `n` elements that a parameter points to, as read.
    pub(super) fn read(&mut self, name: &str, n: u64) {
        self.cost.reads += n * self.element(name);
    }

    /// Adds `n` elements that a parameter points to, as written.
    pub(super) fn write(&mut self, name: &str, n: u64) {
        self.cost.writes += n * self.element(name);
    }

    /// Adds `n` elements that a parameter points to, as read and written.
    pub(super) fn update(&mut self, name: &str, n: u64) {
        self.read(name, n);
        self.write(name, n);
    }

    /// `count` words from word `first` on of those that a parameter points to.
    pub(super) fn words(&mut self, name: &str, first: u64, count: u64) -> Vec<u32> {
        let at = self.n(name) + 4 * first;
        let words = self.memory.words(at, count as usize);
        if words.is_none() {
            self.mistake
                .get_or_insert_with(|| format!("the indices `{name}` are not known"));
        }
        words.unwrap_or_else(|| vec![0; count as usize])
    }

    /// Blocks of the grid's dimension.
    pub(super) fn grid(&self, dimension: usize) -> u64 {
        self.launch.grid[dimension].into()
    }

    /// Product of several numbers among the arguments.
    fn product_of<const N: usize>(&mut self, names: [&str; N]) -> u64 {
        names.into_iter().map(|name| self.n(name)).product()
    }

    /// Adds the kernel's cost. There is one place for each kernel.
    fn add_all(&mut self) {
        let kernel = self.kernel;
        let name = kernel.split('<').next().unwrap_or(kernel);
        match name {
            "convert" => {
                let n = self.n("n");
                self.read("x", n);
                self.write("y", n);
            }
            "scale" | "soft_cap" => {
                let n = self.n("n");
                self.update("x", n);
                self.cost.flops += if name == "scale" { n } else { 3 * n };
            }
            "embed" | "gather" => {
                let (rows, indices, from) = match name {
                    "embed" => (self.n("rows"), "tokens", "table"),
                    _ => (self.n("count"), "rows", "x"),
                };
                let n = rows * self.n("width");
                self.read(indices, rows);
                self.read(from, n);
                self.write("y", n);
            }
            "embed_backward" => {
                let groups = self.n("groups");
                let tokens: u64 = self.words("starts", groups, 1)[0].into();
                let width = self.n("width");
                self.read("order", tokens);
                self.read("dy", tokens * width);
                self.update("dtable", groups * width);
                self.cost.flops += tokens * width + 2 * groups * width;
                // One block adds up all tokens of an id, so the block of the most frequent one is the longest.
                let starts = self.words("starts", 0, groups + 1);
                let counts = starts.windows(2).map(|pair| pair[1] - pair[0]);
                self.cost.longest_block = u64::from(counts.max().unwrap_or(0)) * width;
            }
            "scatter_add" => {
                let n = self.product_of(["count", "width"]);
                self.read("x", n);
                self.update("y", n);
                self.cost.flops += n;
            }
            "store" => {
                // Rows of padding tokens are not copied.
                let count = self.n("count");
                let rows = self.words("rows", 0, count);
                let copied = rows.iter().filter(|row| **row != u32::MAX).count() as u64;
                let n = copied * self.n("width");
                self.read("rows", count);
                self.read("x", n);
                self.write("y", n);
            }
            "add_bias" => {
                let width = self.n("width");
                let n = self.n("rows") * width;
                self.read("bias", width);
                self.update("y", n);
                self.cost.flops += n;
            }
            "column_sums" => {
                let width = self.n("width");
                let n = self.n("rows") * width;
                self.read("x", n);
                self.write("partial", self.grid(1) * width);
                self.cost.flops += n;
            }
            "add_parts" => {
                let width = self.n("width");
                let n = self.n("parts") * width;
                self.read("partial", n);
                self.update("y", width);
                self.cost.flops += n;
            }
            "rms_norm" => {
                let n = self.product_of(["rows", "heads", "width"]);
                let width = self.n("width");
                self.read("x", n);
                self.read("weight", width);
                if self.n("accumulate") > 0 {
                    self.read("y", n);
                }
                self.write("y", n);
                self.cost.flops += 5 * n;
            }
            "rms_norm_backward" => {
                let n = self.product_of(["rows", "heads", "width"]);
                let width = self.n("width");
                self.read("x", n);
                self.read("dy", n);
                self.read("weight", width);
                self.update("dx", n);
                self.write("partial", self.grid(0) * width);
                self.cost.flops += 14 * n;
            }
            "rope_table" => {
                let (rows, half) = (self.n("rows"), self.n("half"));
                self.read("positions", rows);
                self.read("frequencies", half);
                self.write("table", 2 * rows * half);
                self.cost.flops += 3 * rows * half;
            }
            "rope" => {
                let (rows, width) = (self.n("rows"), self.n("head_dim"));
                let rotated = rows * self.n("heads") * width;
                self.read("table", rows * width);
                self.cost.flops += 3 * rotated;
                if self.n("bias") > 0 {
                    let width = self.n("width");
                    self.read("bias", width);
                    self.update("x", rows * width);
                    self.cost.flops += rows * width;
                } else {
                    self.update("x", rotated);
                }
            }
            "gate" => {
                let n = self.product_of(["rows", "width"]);
                self.read("x", 2 * n);
                self.write("y", n);
                self.cost.flops += 5 * n;
            }
            "gate_backward" => {
                let n = self.product_of(["rows", "width"]);
                self.read("dy", n);
                self.update("x", 2 * n);
                self.cost.flops += 10 * n;
            }
            "log_probs" | "log_probs_backward" => {
                let rows = self.grid(0);
                let n = rows * self.n("vocabulary");
                let targets: u64 = self.words("first", rows, 1)[0].into();
                self.read("first", rows + 1);
                self.read("tokens", targets);
                self.read("logits", n);
                self.cost.flops += 8 * n;
                if name == "log_probs" {
                    self.write("logp", targets);
                    self.write("entropy", targets);
                } else {
                    self.read("dlogp", targets);
                    self.update("logits", n);
                    self.cost.flops += 5 * n;
                }
            }
            "set_segments" => {
                let count = self.n("count");
                self.read("updates", 3 * count);
                self.write("segments", count);
            }
            "sample" => self.add_sampling(),
            "sum_squares" => {
                let n = self.n("n");
                self.read("x", n);
                self.write("partial", self.grid(0));
                self.cost.flops += 2 * n;
            }
            "adamw" => {
                let n = self.n("n");
                self.read("g", n);
                for moved in ["w", "m", "v"] {
                    self.update(moved, n);
                }
                if self.n("low") > 0 {
                    self.write("low", n);
                }
                self.cost.flops += 16 * n;
            }
            _ if name.starts_with("attention") => attention::add(self, name),
            _ => self.mistake = Some("it is not listed".to_owned()),
        }
    }

    /// Passes over the logits of each row: for the largest one and the sum of the weights, again if tokens are suppressed, and for the draw. Without cut-offs,
    /// the draw reads only the part of one warp, a sixteenth. To find the likeliest token, it reads all.
    fn add_sampling(&mut self) {
        const DRAW_WORDS: u64 = 10;
        const WARPS: u64 = 16;
        let rows = self.grid(0);
        let vocabulary = self.n("vocabulary");
        let draws = self.words("draws", 0, DRAW_WORDS * rows);
        let mut logits = 0;
        for draw in draws.chunks_exact(DRAW_WORDS as usize) {
            let [temperature, top_p, min_p] = [draw[4], draw[5], draw[6]].map(f32::from_bits);
            let (top_k, greedy) = (draw[7] > 0, temperature == 0.0);
            let mut passes = if draw[9] > 0 { 2 } else { 1 };
            self.cost.reads += 4 * u64::from(draw[9]);
            if greedy || !(top_k || top_p < 1.0 || min_p > 0.0) {
                passes += u64::from(greedy);
                logits += vocabulary.div_ceil(WARPS);
            } else {
                // `select_key` makes four passes; one follows for ties. `top_p` needs the sum of what `top_k` kept.
                passes += if top_k { 5 } else { 0 };
                passes += if top_p < 1.0 { 6 } else { 0 };
                // The remaining tokens are collected.
                passes += 1;
            }
            logits += passes * vocabulary;
        }
        self.read("logits", logits);
        self.cost.reads += 4 * DRAW_WORDS * rows;
        self.cost.flops += 5 * logits;
        for result in ["token", "logp", "bad"] {
            self.write(result, rows);
        }
    }
}
