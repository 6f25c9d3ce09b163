//! Writes the charges into the module.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    BlockType, BranchHint, BranchHints, CodeSection, ConstExpr, EntityType, ExportKind,
    ExportSection, Function, GlobalSection, GlobalType, ImportSection, Instruction, Module,
    SectionId, TypeSection, ValType,
};
use wasmparser::{FunctionBody, Operator, Parser, Payload};

use super::{FUEL, MARK, MAX_PRICE, ModuleSummary, REFUEL};

type ReencodeResult<T> = Result<T, Error<Infallible>>;

/// Returns the module with its charges.
pub(super) fn module(
    summary: &ModuleSummary,
    charged: &BTreeSet<u32>,
    module: &[u8],
) -> wasmtime::Result<Vec<u8>> {
    let mut indices = Indices {
        imported: summary.imported,
    };
    let mut bodies = Vec::with_capacity(summary.types.len());
    let mut hints = BranchHints::new();
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::CodeSectionEntry(body) = payload? {
            let function = summary.imported + bodies.len() as u32;
            let parameters = summary.parameters[summary.types[bodies.len()] as usize];
            let mut writer = Writer::new(summary, indices, parameters, &body)?;
            writer.write(&body, charged.contains(&function))?;
            if !writer.hints.is_empty() {
                hints.function_hints(indices.function_index(function)?, writer.hints);
            }
            bodies.push(writer.function.into_raw_body());
        }
    }
    let mut rewriter = Rewriter {
        summary,
        indices,
        bodies: bodies.into_iter(),
        hints,
    };
    let mut metered = Module::new();
    rewriter.parse_core_module(&mut metered, Parser::new(0), module)?;
    Ok(metered.finish())
}

/// Renumbers functions: the import of [`REFUEL`] comes after the other imports.
#[derive(Clone, Copy)]
struct Indices {
    imported: u32,
}

impl Reencode for Indices {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> ReencodeResult<u32> {
        Ok(function + u32::from(function >= self.imported))
    }
}

/// Writes one function's body.
struct Writer {
    indices: Indices,
    function: Function,
    /// Index of the additional local for the length of a bulk operation.
    length: u32,
    fuel: u32,
    mark: u32,
    refuel: u32,
    hints: Vec<BranchHint>,
}

impl Writer {
    fn new(
        summary: &ModuleSummary,
        mut indices: Indices,
        parameters: u32,
        body: &FunctionBody<'_>,
    ) -> wasmtime::Result<Writer> {
        let mut locals = Vec::new();
        let mut length = parameters;
        for group in body.get_locals_reader()? {
            let (count, ty) = group?;
            length += count;
            locals.push((count, indices.val_type(ty)?));
        }
        if has_bulk(body)? {
            locals.push((1, ValType::I32));
        }
        Ok(Writer {
            indices,
            function: Function::new(locals),
            length,
            fuel: summary.globals,
            mark: summary.globals + 1,
            refuel: summary.imported,
            hints: Vec::new(),
        })
    }

    fn write(&mut self, body: &FunctionBody<'_>, charged: bool) -> wasmtime::Result<()> {
        let prices = Prices::of(body)?;
        if charged {
            self.subtract(&[Instruction::I64Const(prices.entry as i64)]);
            self.call_refuel_below_mark();
        }
        for (at, operator) in body.get_operators_reader()?.into_iter().enumerate() {
            let operator = operator?;
            if is_bulk(&operator) {
                self.charge_bulk();
            }
            self.function
                .instruction(&self.indices.instruction(operator)?);
            if let Some(&price) = prices.iterations.get(&at) {
                self.charge_iteration(price);
            }
        }
        Ok(())
    }

    fn charge_iteration(&mut self, price: u64) {
        self.subtract(&[Instruction::I64Const(price as i64)]);
        if price < MAX_PRICE {
            self.trap_if_negative();
        } else {
            self.call_refuel_below_mark();
        }
    }

    fn charge_bulk(&mut self) {
        let length = self.length;
        self.function.instruction(&Instruction::LocalSet(length));
        let price = [Instruction::LocalGet(length), Instruction::I64ExtendI32U];
        self.subtract(&price);
        self.trap_if_negative();
        self.function.instruction(&Instruction::LocalGet(length));
    }

    /// Subtracts the units that `price` puts on the stack.
    fn subtract(&mut self, price: &[Instruction<'_>]) {
        self.function
            .instruction(&Instruction::GlobalGet(self.fuel));
        for instruction in price {
            self.function.instruction(instruction);
        }
        self.function
            .instruction(&Instruction::I64Sub)
            .instruction(&Instruction::GlobalSet(self.fuel));
    }

    fn call_refuel_below_mark(&mut self) {
        self.function
            .instruction(&Instruction::GlobalGet(self.fuel))
            .instruction(&Instruction::GlobalGet(self.mark));
        self.if_less(&Instruction::Call(self.refuel));
    }

    fn trap_if_negative(&mut self) {
        self.function
            .instruction(&Instruction::GlobalGet(self.fuel))
            .instruction(&Instruction::I64Const(0));
        self.if_less(&Instruction::Unreachable);
    }

    /// Runs `instruction` if the first of the two numbers on the stack is less than the second. A hint for the compiler says that this is rare.
    fn if_less(&mut self, instruction: &Instruction<'_>) {
        self.function.instruction(&Instruction::I64LtS);
        self.hints.push(BranchHint {
            branch_func_offset: self.function.byte_len() as u32,
            branch_hint_value: 0,
        });
        self.function
            .instruction(&Instruction::If(BlockType::Empty))
            .instruction(instruction)
            .instruction(&Instruction::End);
    }
}

/// The prices of a function.
struct Prices {
    entry: u64,
    /// The price of an iteration of each loop, by the number of the operator that begins the loop.
    iterations: BTreeMap<usize, u64>,
}

impl Prices {
    fn of(body: &FunctionBody<'_>) -> wasmtime::Result<Prices> {
        let mut iterations = BTreeMap::new();
        // `blocks` has the open blocks, with the first operator of loops. `counts` has the number of operators in the function and in each open loop.
        let mut blocks = Vec::new();
        let mut counts = vec![0_u64];
        for (at, operator) in body.get_operators_reader()?.into_iter().enumerate() {
            let operator = operator?;
            if let Some(count) = counts.last_mut() {
                *count += 1;
            }
            match operator {
                Operator::Loop { .. } => {
                    blocks.push(Some(at));
                    counts.push(0);
                }
                Operator::Block { .. }
                | Operator::If { .. }
                | Operator::Try { .. }
                | Operator::TryTable { .. } => blocks.push(None),
                // A `try` that ends with `delegate` has no `end`.
                Operator::End | Operator::Delegate { .. } => {
                    if let Some(Some(begin)) = blocks.pop() {
                        iterations.insert(begin, counts.pop().unwrap_or(0).min(MAX_PRICE));
                    }
                }
                _ => {}
            }
        }
        Ok(Prices {
            entry: counts[0].min(MAX_PRICE),
            iterations,
        })
    }
}

fn has_bulk(body: &FunctionBody<'_>) -> wasmtime::Result<bool> {
    for operator in body.get_operators_reader()? {
        if is_bulk(&operator?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an operator works on as many bytes as the number on top of the stack.
fn is_bulk(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::MemoryCopy { .. } | Operator::MemoryFill { .. } | Operator::MemoryInit { .. }
    )
}

/// Rewrites everything except code.
struct Rewriter<'a> {
    summary: &'a ModuleSummary,
    indices: Indices,
    bodies: std::vec::IntoIter<Vec<u8>>,
    hints: BranchHints,
}

impl Reencode for Rewriter<'_> {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> ReencodeResult<u32> {
        self.indices.function_index(function)
    }

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: wasmparser::TypeSectionReader<'_>,
    ) -> ReencodeResult<()> {
        utils::parse_type_section(self, types, section)?;
        types.ty().function([], []);
        Ok(())
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: wasmparser::ImportSectionReader<'_>,
    ) -> ReencodeResult<()> {
        utils::parse_import_section(self, imports, section)?;
        let ty = self.summary.parameters.len() as u32;
        imports.import(REFUEL.0, REFUEL.1, EntityType::Function(ty));
        Ok(())
    }

    fn parse_global_section(
        &mut self,
        globals: &mut GlobalSection,
        section: wasmparser::GlobalSectionReader<'_>,
    ) -> ReencodeResult<()> {
        utils::parse_global_section(self, globals, section)?;
        let counter = GlobalType {
            val_type: ValType::I64,
            mutable: true,
            shared: false,
        };
        globals.global(counter, &ConstExpr::i64_const(0));
        globals.global(counter, &ConstExpr::i64_const(0));
        Ok(())
    }

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        section: wasmparser::ExportSectionReader<'_>,
    ) -> ReencodeResult<()> {
        utils::parse_export_section(self, exports, section)?;
        exports.export(FUEL, ExportKind::Global, self.summary.globals);
        exports.export(MARK, ExportKind::Global, self.summary.globals + 1);
        Ok(())
    }

    fn intersperse_section_hook(
        &mut self,
        module: &mut Module,
        _after: Option<SectionId>,
        before: Option<SectionId>,
    ) -> ReencodeResult<()> {
        if before == Some(SectionId::Code) {
            module.section(&self.hints);
        }
        Ok(())
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        _body: FunctionBody<'_>,
    ) -> ReencodeResult<()> {
        let body = self.bodies.next();
        code.raw(&body.expect("as many bodies were written as are read"));
        Ok(())
    }
}
