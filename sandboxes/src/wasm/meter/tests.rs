use wasmtime::{Config, Engine, Instance, Linker, Module, Store, Val};

use super::*;

/// A metered instance of a module in text form. It imports only `host.add`, and has a given amount of fuel.
struct Metered {
    store: Store<()>,
    instance: Instance,
}

impl Metered {
    fn new(text: &str, fuel: i64) -> Metered {
        let module =
            metered(&wat::parse_str(format!("(module {COMMON} {text})")).unwrap()).unwrap();
        let mut config = Config::new();
        config.wasm_exceptions(true).wasm_branch_hinting(true);
        let engine = Engine::new(&config).unwrap();
        let module = Module::new(&engine, module).unwrap();
        let mut linker = Linker::new(&engine);
        linker
            .func_wrap("host", "add", |a: i32, b: i32| a.wrapping_add(b))
            .unwrap();
        linker
            .func_wrap(REFUEL.0, REFUEL.1, || -> wasmtime::Result<()> {
                Err(wasmtime::Error::msg("asked"))
            })
            .unwrap();
        let mut store = Store::new(&engine, ());
        let instance = linker.instantiate(&mut store, &module).unwrap();
        let mut metered = Metered { store, instance };
        metered.set(FUEL, fuel);
        metered
    }

    fn set(&mut self, name: &str, value: i64) {
        let global = self.instance.get_global(&mut self.store, name).unwrap();
        global.set(&mut self.store, Val::I64(value)).unwrap();
    }

    fn left(&mut self) -> i64 {
        let global = self.instance.get_global(&mut self.store, FUEL).unwrap();
        global.get(&mut self.store).i64().unwrap()
    }

    fn call(&mut self, name: &str, argument: i32) -> wasmtime::Result<i32> {
        self.instance
            .get_typed_func::<i32, i32>(&mut self.store, name)?
            .call(&mut self.store, argument)
    }

    /// Calls a function with the most possible fuel, and returns its result and the fuel that it used.
    fn measured(text: &str, name: &str, argument: i32) -> (i32, i64) {
        let mut metered = Metered::new(text, i64::MAX);
        let result = metered.call(name, argument).unwrap();
        (result, i64::MAX - metered.left())
    }
}

/// Part of every module, so that the rewriting has function indices to change.
const COMMON: &str = r#"
  (import "host" "add" (func $add (param i32 i32) (result i32)))
  (global $common (mut i32) (i32.const 9))
  (func (export "common") (result i32) (global.get $common))"#;

const SUM: &str = r#"  (func (export "f") (param $n i32) (result i32) (local $sum i32)
    (loop $again
      (local.set $sum (i32.add (local.get $sum) (local.get $n)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br_if $again (local.get $n)))
    (local.get $sum))"#;

#[test]
fn an_iteration_costs_one_unit_per_operator() {
    // Ten operators and the loop's end.
    assert_eq!(Metered::measured(SUM, "f", 1), (1, 11));
    assert_eq!(Metered::measured(SUM, "f", 1000), (500_500, 11_000));
}

#[test]
fn a_loop_traps_once_its_fuel_is_used_up_and_not_before() {
    let mut enough = Metered::new(SUM, 11_000);
    assert_eq!(enough.call("f", 1000).unwrap(), 500_500);
    assert_eq!(enough.left(), 0);
    let mut short = Metered::new(SUM, 10_999);
    let error = short.call("f", 1000).unwrap_err();
    assert_eq!(
        error.downcast_ref::<wasmtime::Trap>(),
        Some(&wasmtime::Trap::UnreachableCodeReached)
    );
    assert_eq!(short.left(), -1);
}

#[test]
fn inner_loops_are_charged_separately() {
    let text = r#"      (func (export "f") (param $n i32) (result i32) (local $m i32) (local $rounds i32)
        (loop $outer
          (local.set $m (i32.const 3))
          (loop $inner
            (local.set $rounds (i32.add (local.get $rounds) (i32.const 1)))
            (br_if $inner (local.tee $m (i32.sub (local.get $m) (i32.const 1)))))
          (br_if $outer (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.get $rounds))"#;
    // Outer loop: two operators that set, `loop`, five that decide, `end`. Inner loop: four that count, five that decide, `end`.
    assert_eq!(Metered::measured(text, "f", 7), (21, 7 * 9 + 21 * 10));
}

#[test]
fn the_price_of_a_long_body_is_capped() {
    let work = "(local.set $n (i32.mul (local.get $n) (i32.const 3)))".repeat(100);
    let text = format!(
        r#"(func (export "f") (param $n i32) (result i32) (local $i i32)
          (loop $again
            {work}
            (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 5))))
          (local.get $n))"#
    );
    let (result, used) = Metered::measured(&text, "f", 1);
    assert_eq!(result, (0..500).fold(1_i32, |n, _| n.wrapping_mul(3)));
    assert_eq!(used, 5 * MAX_PRICE as i64);
}

#[test]
fn recursion_is_charged_and_other_calls_are_not() {
    let text = r#"      (func $leaf (param i32) (result i32) (i32.sub (local.get 0) (i32.const 1)))
      (func $even (param i32) (result i32)
        (if (result i32) (local.get 0)
          (then (call $odd (call $leaf (local.get 0))))
          (else (i32.const 1))))
      (func $odd (param i32) (result i32)
        (if (result i32) (local.get 0)
          (then (call $even (call $leaf (local.get 0))))
          (else (i32.const 0))))
      (func (export "f") (param i32) (result i32) (call $even (local.get 0)))
      (func (export "leaf") (param i32) (result i32) (call $leaf (local.get 0)))"#;
    let (result, used) = Metered::measured(text, "f", 1000);
    assert_eq!(result, 1);
    // One of the two functions is charged: it has nine operators, and is entered by the first call and by every second one.
    assert_eq!(used, 9 * 501);
    assert_eq!(Metered::measured(text, "leaf", 5), (4, 0));
}

const INDIRECT: &str = r#"  (type $fold (func (param i32) (result i32)))
  (table 2 2 funcref)
  (elem (i32.const 0) $self $other)
  (func $other (type $fold) (call_indirect (type $fold) (local.get 0) (i32.const 0)))
  (func $self (type $fold)
    (if (result i32) (local.get 0)
      (then (call $add (i32.const 1) (call_indirect (type $fold) (i32.sub (local.get 0) (i32.const 1)) (i32.const 1))))
      (else (i32.const 0))))
  (func (export "f") (type $fold) (call $self (local.get 0)))"#;

#[test]
fn indirect_recursion_is_charged_at_every_entry() {
    let (result, used) = Metered::measured(INDIRECT, "f", 100);
    assert_eq!(result, 100);
    let (_, less) = Metered::measured(INDIRECT, "f", 99);
    // Thirteen operators of `$self` and four of `$other`.
    assert_eq!(used - less, 13 + 4);
}

#[test]
fn an_entry_calls_the_host_below_the_mark() {
    let (_, used) = Metered::measured(INDIRECT, "f", 100);
    let mut above = Metered::new(INDIRECT, used + 500);
    above.set(MARK, 500);
    assert_eq!(above.call("f", 100).unwrap(), 100);
    let mut below = Metered::new(INDIRECT, used + 500);
    below.set(MARK, 501);
    let error = format!("{:?}", below.call("f", 100).unwrap_err());
    assert!(error.contains("asked"), "{error}");
}

#[test]
fn a_bulk_operation_costs_one_unit_per_byte() {
    let text = r#"      (memory 16)
      (func (export "f") (param $n i32) (result i32)
        (memory.fill (i32.const 0) (i32.const 7) (local.get $n))
        (memory.copy (i32.const 500000) (i32.const 0) (local.get $n))
        (i32.load8_u (i32.add (i32.const 499999) (local.get $n))))"#;
    assert_eq!(Metered::measured(text, "f", 300_000), (7, 600_000));
    let mut short = Metered::new(text, 599_999);
    assert!(short.call("f", 300_000).is_err());
    assert!(short.left() < 0);
}

#[test]
fn a_module_that_cannot_be_metered_is_refused() {
    for text in [
        format!("(module {COMMON} (func $s) (start $s))"),
        "(module)".to_owned(),
        r#"(module (global i32 (i32.const 1)) (func (export "f")))"#.to_owned(),
    ] {
        let error = metered(&wat::parse_str(text).unwrap()).unwrap_err();
        assert!(error.to_string().contains("can be metered"), "{error}");
    }
}
