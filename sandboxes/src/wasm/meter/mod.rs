//! Metering: a module is rewritten so that it counts its own work down and stops when none is left.
//!
//! Every cycle in the module's control flow gets a charge, and nothing else does: each loop's head, and the entries of as many functions
//! as it takes to cut all recursion (`cycles`). Straight code between two charges is as long as the program was written, so that work is bounded
//! by what was charged. The price of a loop's round is the number of its operators, that of an entry the number of the function's, without those in inner
//! loops, at most [`MAX_PRICE`]; bulk operations on memory cost a unit a byte besides.
//!
//! What the rewritten module needs of its host:
//!
//! - the global [`FUEL`], units that are left;
//! - the global [`MARK`], never negative. Where less than that is left, a function that is charged on entry and a loop of the highest price call
//!   [`REFUEL`], in which the host looks around and lowers the mark, or stops the guest. Programs pass there all the time, since an interpreter's
//!   main loop has that price.
//!
//! Cheaper loops and bulk operations do not call, since calls take registers: they trap (`unreachable`) where they make [`FUEL`] negative. A guest stops at the
//! same place in every run, whatever the marks were. Over the compiler's own metering, which counts every instruction and calls out, this one saves three
//! quarters of the cost.

mod cycles;
mod rewrite;

use std::collections::BTreeSet;

use wasmparser::{ElementItems, ExternalKind, Operator, Parser, Payload, TypeRef};

/// The exported global (i64) of the units that are left.
pub(super) const FUEL: &str = "fuel";
/// The exported global (i64) below which the host is asked.
pub(super) const MARK: &str = "mark";
/// The imported function, without parameters and results, that asks the host.
pub(super) const REFUEL: (&str, &str) = ("host", "refuel");
/// The most that a round of a loop or an entry costs: where more operators stand there, they are mostly alternatives.
const MAX_PRICE: u64 = 100;

/// Rewrites a module that has imports, globals and exports, to which it adds, and no start function, which nobody could give fuel.
pub(super) fn metered(module: &[u8]) -> wasmtime::Result<Vec<u8>> {
    let summary = ModuleSummary::of(module)?;
    if summary.extended != 3 || summary.starts {
        return Err(wasmtime::Error::msg(
            "only a module with imports, globals and exports, and without a start function, can be metered",
        ));
    }
    let charged = cycles::entries(&summary);
    rewrite::module(&summary, &charged, module)
}

/// What the rewriting has to know of the module. Functions are numbered as in the module: imports first.
#[derive(Default)]
struct ModuleSummary {
    /// How many there are of the three sections that are added to.
    extended: u32,
    /// Whether it has a start function.
    starts: bool,
    /// How many parameters a function of each type has.
    parameters: Vec<u32>,
    /// How many functions are imported.
    imported: u32,
    /// How many globals there are.
    globals: u32,
    /// The type of each function that is not imported.
    types: Vec<u32>,
    /// Functions that can be called by other ways than by their name: through tables, and by the host.
    taken: BTreeSet<u32>,
    /// Functions that call others by such a way.
    indirect: BTreeSet<u32>,
    /// The functions that each function that is not imported calls by name.
    calls: Vec<BTreeSet<u32>>,
}

impl ModuleSummary {
    fn of(module: &[u8]) -> wasmtime::Result<ModuleSummary> {
        let mut summary = ModuleSummary::default();
        for payload in Parser::new(0).parse_all(module) {
            summary.add(payload?)?;
        }
        Ok(summary)
    }

    fn add(&mut self, payload: Payload<'_>) -> wasmtime::Result<()> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section {
                    for ty in group?.into_types() {
                        let parameters = match &ty.composite_type.inner {
                            wasmparser::CompositeInnerType::Func(function) => {
                                function.params().len()
                            }
                            _ => 0,
                        };
                        self.parameters.push(parameters as u32);
                    }
                }
            }
            Payload::ImportSection(section) => {
                self.extended += 1;
                for import in section.into_imports() {
                    match import?.ty {
                        TypeRef::Func(_) | TypeRef::FuncExact(_) => self.imported += 1,
                        TypeRef::Global(_) => self.globals += 1,
                        TypeRef::Table(_) | TypeRef::Memory(_) | TypeRef::Tag(_) => {}
                    }
                }
            }
            Payload::FunctionSection(section) => {
                self.types = section.into_iter().collect::<Result<_, _>>()?;
            }
            Payload::GlobalSection(section) => {
                self.extended += 1;
                self.globals += section.count();
            }
            Payload::ExportSection(section) => {
                self.extended += 1;
                for export in section {
                    let export = export?;
                    if export.kind == ExternalKind::Func {
                        self.taken.insert(export.index);
                    }
                }
            }
            Payload::StartSection { .. } => self.starts = true,
            Payload::ElementSection(section) => {
                for element in section {
                    match element?.items {
                        ElementItems::Functions(functions) => {
                            for function in functions {
                                self.taken.insert(function?);
                            }
                        }
                        ElementItems::Expressions(_, expressions) => {
                            for expression in expressions {
                                for operator in expression?.get_operators_reader() {
                                    if let Operator::RefFunc { function_index } = operator? {
                                        self.taken.insert(function_index);
                                    }
                                }
                            }
                        }
                    }
                }
            }
            Payload::CodeSectionEntry(body) => {
                let caller = self.imported + self.calls.len() as u32;
                let mut calls = BTreeSet::new();
                for operator in body.get_operators_reader()? {
                    match operator? {
                        Operator::Call { function_index }
                        | Operator::ReturnCall { function_index } => {
                            calls.insert(function_index);
                        }
                        Operator::CallIndirect { .. }
                        | Operator::ReturnCallIndirect { .. }
                        | Operator::CallRef { .. }
                        | Operator::ReturnCallRef { .. } => {
                            self.indirect.insert(caller);
                        }
                        Operator::RefFunc { function_index } => {
                            self.taken.insert(function_index);
                        }
                        _ => {}
                    }
                }
                self.calls.push(calls);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
