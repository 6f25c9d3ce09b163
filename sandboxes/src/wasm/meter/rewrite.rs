//! Writing the charges into the module.

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

type Coded<T> = Result<T, Error<Infallible>>;

/// The module again, with its charges.
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

/// How the numbers of functions change: the import of [`REFUEL`] follows the others.
#[derive(Clone, Copy)]
struct Indices {
    imported: u32,
}

impl Reencode for Indices {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Coded<u32> {
        Ok(function + u32::from(function >= self.imported))
    }
}

/// One function's body.
struct Writer {
    indices: Indices,
    function: Function,
    /// A local of its own: the length of a bulk operation.
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
            self.charge_entry(prices.entry);
        }
        for (at, operator) in body.get_operators_reader()?.into_iter().enumerate() {
            let operator = operator?;
            if is_bulk(&operator) {
                self.charge_bulk();
            }
            self.function
                .instruction(&self.indices.instruction(operator)?);
            if let Some(&price) = prices.rounds.get(&at) {
                self.charge_round(price);
            }
        }
        Ok(())
    }

    fn charge_entry(&mut self, price: u64) {
        self.take(&[Instruction::I64Const(price as i64)]);
        self.ask_below_the_mark();
    }

    fn charge_round(&mut self, price: u64) {
        self.take(&[Instruction::I64Const(price as i64)]);
        if price < MAX_PRICE {
            self.trap_where_none_is_left();
        } else {
            self.ask_below_the_mark();
        }
    }

    fn charge_bulk(&mut self) {
        self.function
            .instruction(&Instruction::LocalSet(self.length));
        self.take(&[
            Instruction::LocalGet(self.length),
            Instruction::I64ExtendI32U,
        ]);
        self.trap_where_none_is_left();
        self.function
            .instruction(&Instruction::LocalGet(self.length));
    }

    /// Takes the units that `price` puts on the stack.
    fn take(&mut self, price: &[Instruction<'_>]) {
        self.function
            .instruction(&Instruction::GlobalGet(self.fuel));
        for instruction in price {
            self.function.instruction(instruction);
        }
        self.function
            .instruction(&Instruction::I64Sub)
            .instruction(&Instruction::GlobalSet(self.fuel));
    }

    fn ask_below_the_mark(&mut self) {
        self.function
            .instruction(&Instruction::GlobalGet(self.fuel))
            .instruction(&Instruction::GlobalGet(self.mark));
        self.where_less(&Instruction::Call(self.refuel));
    }

    fn trap_where_none_is_left(&mut self) {
        self.function
            .instruction(&Instruction::GlobalGet(self.fuel))
            .instruction(&Instruction::I64Const(0));
        self.where_less(&Instruction::Unreachable);
    }

    /// `instruction`, where of the two numbers on the stack the first is less; a hint for the compiler says that this is rare.
    fn where_less(&mut self, instruction: &Instruction<'_>) {
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

/// What a function costs.
struct Prices {
    entry: u64,
    /// Of a round of each loop, by the number of the operator that begins it.
    rounds: BTreeMap<usize, u64>,
}

impl Prices {
    fn of(body: &FunctionBody<'_>) -> wasmtime::Result<Prices> {
        let mut rounds = BTreeMap::new();
        // The blocks that are open, loops with the operator that begins them; and the operators counted in each open loop, outermost the function.
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
                        rounds.insert(begin, counts.pop().unwrap_or(0).min(MAX_PRICE));
                    }
                }
                _ => {}
            }
        }
        Ok(Prices {
            entry: counts[0].min(MAX_PRICE),
            rounds,
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

/// Whether an operator works through as many bytes as the number on top of the stack says.
fn is_bulk(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::MemoryCopy { .. } | Operator::MemoryFill { .. } | Operator::MemoryInit { .. }
    )
}

/// All that is not code.
struct Rewriter<'a> {
    summary: &'a ModuleSummary,
    indices: Indices,
    bodies: std::vec::IntoIter<Vec<u8>>,
    hints: BranchHints,
}

impl Reencode for Rewriter<'_> {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Coded<u32> {
        self.indices.function_index(function)
    }

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: wasmparser::TypeSectionReader<'_>,
    ) -> Coded<()> {
        utils::parse_type_section(self, types, section)?;
        types.ty().function([], []);
        Ok(())
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: wasmparser::ImportSectionReader<'_>,
    ) -> Coded<()> {
        utils::parse_import_section(self, imports, section)?;
        let ty = self.summary.parameters.len() as u32;
        imports.import(REFUEL.0, REFUEL.1, EntityType::Function(ty));
        Ok(())
    }

    fn parse_global_section(
        &mut self,
        globals: &mut GlobalSection,
        section: wasmparser::GlobalSectionReader<'_>,
    ) -> Coded<()> {
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
    ) -> Coded<()> {
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
    ) -> Coded<()> {
        if before == Some(SectionId::Code) {
            module.section(&self.hints);
        }
        Ok(())
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        _body: FunctionBody<'_>,
    ) -> Coded<()> {
        let body = self
            .bodies
            .next()
            .expect("as many bodies were written as are read");
        code.raw(&body);
        Ok(())
    }
}
