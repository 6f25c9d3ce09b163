//! Metering: a module is rewritten so that it counts its own work down and stops when no fuel is left.
//!
//! Every cycle in the module's control flow gets a charge, and nothing else does. Charges are at each loop's head, and at the entries of enough functions to cut all
//! recursion (`cycles`). Straight-line code between two charges is no longer than the module itself, so the charges bound the work. An iteration of a loop costs the
//! number of operators in the loop, and a charged entry that of the function. Operators in inner loops do not count, and the highest price is [`MAX_PRICE`]. Bulk
//! operations on memory also cost a unit for each byte.
//!
//! What the rewritten module needs from its host:
//!
//! - the global [`FUEL`], the units that are left;
//! - the global [`MARK`], which is never negative. With less fuel than that, charged functions and loops of the highest price call [`REFUEL`]. There the host checks
//!   the clock and lowers the mark, or stops the guest. Programs reach such a place all the time, since an interpreter's main loop has that price.
//!
//! Cheaper loops and bulk operations do not call the host, since calls take registers. They trap (`unreachable`) if they make [`FUEL`] negative. A guest stops at
//! the same place in every run, whatever the marks were. The compiler's own metering counts every instruction and calls the host; this one costs a sixth of
//! that (`PERFORMANCE.md`, rows 2 and 6 of the cost of metering).

mod cycles;
mod rewrite;

use std::collections::BTreeSet;

use wasmparser::{ElementItems, ExternalKind, Operator, Parser, Payload, TypeRef};

/// The exported global (i64) with the units that are left.
pub(super) const FUEL: &str = "fuel";
/// The exported global (i64) with the fuel below which the module calls the host.
pub(super) const MARK: &str = "mark";
/// The imported function, without parameters and results, that calls the host.
pub(super) const REFUEL: (&str, &str) = ("host", "refuel");
/// The most that an iteration of a loop or an entry costs. If there are more operators, they are mostly alternatives.
const MAX_PRICE: u64 = 100;

/// Rewrites a module. It must have imports, globals and exports, since this adds to them. It must have no start function, since that could not get fuel.
pub(super) fn metered(module: &[u8]) -> wasmtime::Result<Vec<u8>> {
    let summary = ModuleSummary::of(module)?;
    if summary.extended_sections != 3 || summary.has_start {
        return Err(wasmtime::Error::msg(
            "only a module with imports, globals and exports, and without a start function, can be metered",
        ));
    }
    let charged = cycles::entries(&summary);
    rewrite::module(&summary, &charged, module)
}

/// What the rewriting needs to know about the module. Functions are numbered as in the module: imports first.
#[derive(Default)]
struct ModuleSummary {
    /// Number of import, global and export sections. The rewriting adds to these.
    extended_sections: u32,
    /// Whether it has a start function.
    has_start: bool,
    /// Number of parameters of each function type; 0 for other types.
    parameters: Vec<u32>,
    /// Number of imported functions.
    imported: u32,
    /// Number of globals.
    globals: u32,
    /// The type of each function that is not imported.
    types: Vec<u32>,
    /// Functions that can be called other than by name: through tables, through references, and by the host.
    called_indirectly: BTreeSet<u32>,
    /// Functions with an indirect call.
    calling_indirectly: BTreeSet<u32>,
    /// For each function that is not imported, the functions that it calls by name.
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
                self.extended_sections += 1;
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
                self.extended_sections += 1;
                self.globals += section.count();
            }
            Payload::ExportSection(section) => {
                self.extended_sections += 1;
                for export in section {
                    let export = export?;
                    if export.kind == ExternalKind::Func {
                        self.called_indirectly.insert(export.index);
                    }
                }
            }
            Payload::StartSection { .. } => self.has_start = true,
            Payload::ElementSection(section) => {
                for element in section {
                    match element?.items {
                        ElementItems::Functions(functions) => {
                            for function in functions {
                                self.called_indirectly.insert(function?);
                            }
                        }
                        ElementItems::Expressions(_, expressions) => {
                            for expression in expressions {
                                for operator in expression?.get_operators_reader() {
                                    if let Operator::RefFunc { function_index } = operator? {
                                        self.called_indirectly.insert(function_index);
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
                            self.calling_indirectly.insert(caller);
                        }
                        Operator::RefFunc { function_index } => {
                            self.called_indirectly.insert(function_index);
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
