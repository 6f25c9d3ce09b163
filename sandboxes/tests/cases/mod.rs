//! What every sandbox promises: cases that each sandbox's tests run over their own.

pub(crate) mod isolation;
pub(crate) mod judging;
pub(crate) mod limits;
pub(crate) mod misuse;
pub(crate) mod reading;
pub(crate) mod values;

use sandboxes::{Call, End, Limits, Program, Request, Run, Sandbox, SandboxError, Work};

/// Declares a test for each case over the sandbox that `$sandbox()` returns; where that is `None`, it has said why.
macro_rules! cases {
    ($sandbox:path) => {
        crate::cases::cases! { $sandbox;
            values {
                every_kind_of_value_goes_in_and_comes_out_unchanged
                numpy_and_subclasses_come_back_as_the_data_below_them
                a_value_without_encoding_is_opaque
                a_value_nested_too_deeply_or_in_itself_is_too_large
                a_long_value_is_its_digest_and_equal_values_have_equal_ones
                a_value_is_equal_in_binary_form_and_in_json
                a_long_list_is_encoded_as_its_elements_are
                a_number_of_many_digits_comes_back_whatever_the_interpreters_own_limit_is
            }
            misuse {
                source_that_does_not_load_is_unloadable
                any_exception_is_the_end_of_its_call_only
                a_program_that_leaves_the_process_keeps_its_answers
                patching_what_the_harness_might_use_changes_nothing
                tiny_interpreter_limits_are_the_programs_own
                a_forged_answer_counts_as_the_answer_and_a_second_one_ends_the_run
                answering_every_call_at_once_is_no_more_than_returning_those_values
                more_answers_than_calls_end_the_run
                bytes_that_are_no_request_end_the_run
                printing_decides_nothing
                arguments_that_cannot_be_sent_are_no_fault_of_the_program
            }
            judging {
                each_test_passes_or_raises
                a_watch_may_end_a_run
                arguments_that_the_program_changes_are_changed_for_the_test
                exceptions_arrive_by_their_name
                iterators_and_objects_of_the_library_arrive_unchanged
                a_failed_test_names_the_type_of_an_opaque_value
                a_run_whose_tests_never_call_the_program_is_uncalled
                the_program_keeps_its_state_between_calls_and_cannot_reach_the_tests
                a_program_that_stops_ends_the_run_with_the_tests_so_far
                a_program_that_does_not_load_is_unloadable
                a_task_whose_own_code_does_not_work_is_no_fault_of_the_program
            }
            limits {
                a_loop_inside_one_library_call_is_metered_too
                a_program_that_takes_all_memory_is_out_of_memory
                a_memory_limit_below_the_interpreters_own_size_is_a_fault_of_the_configuration
                recursion_without_end_raises_and_the_next_call_works
                a_raised_recursion_limit_gives_a_verdict_too
                deep_source_is_refused_by_the_compiler_not_by_a_crash
                output_is_kept_up_to_its_limit
                sleeping_takes_virtual_time_only
            }
            reading {
                the_outline_of_a_text_does_not_depend_on_earlier_texts
            }
            isolation {
                calls_of_one_run_share_their_instance_and_runs_share_nothing
                time_randomness_hashes_and_addresses_are_the_same_in_every_run
                runs_on_several_threads_are_independent
                the_program_is_not_the_main_module_and_has_a_module_of_its_own
            }
        }
    };
    ($sandbox:path; $($module:ident { $($case:ident)+ })+) => {
        $(mod $module {
            $(#[test]
            fn $case() {
                if let Some(sandbox) = $sandbox() {
                    crate::cases::$module::$case(&*sandbox);
                }
            })+
        })+
    };
}
pub(crate) use cases;

/// Runs `f` of `source` once for each of `calls`.
pub(crate) fn run_within(
    sandbox: &dyn Sandbox,
    source: &str,
    calls: &[&str],
    limits: &Limits,
) -> Run {
    try_run(sandbox, source, calls, limits).unwrap()
}

/// As [`run_within`], where there may be no run.
pub(crate) fn try_run(
    sandbox: &dyn Sandbox,
    source: &str,
    calls: &[&str],
    limits: &Limits,
) -> Result<Run, SandboxError> {
    let calls: Vec<String> = calls.iter().map(|&call| call.to_owned()).collect();
    let program = Program {
        source,
        entry_point: "f",
    };
    let work = Work::Calls {
        program,
        calls: &calls,
    };
    sandbox.run(&Request::new(work, limits))
}

pub(crate) fn run(sandbox: &dyn Sandbox, source: &str, calls: &[&str]) -> Run {
    run_within(sandbox, source, calls, &Limits::default())
}

/// What `f()` returns, or how else it ends, in words.
pub(crate) fn result(sandbox: &dyn Sandbox, source: &str) -> String {
    let run = run(sandbox, source, &["[]"]);
    match (run.calls.as_slice(), &run.end) {
        ([Call::Returned(value)], End::Completed) => value.clone(),
        ([Call::Raised { kind, message }], End::Completed) => format!("{kind}: {message}"),
        other => format!("{other:?}"),
    }
}

/// Whether a limit on work ended it, in whatever measure.
pub(crate) fn timed_out(end: &End) -> bool {
    matches!(end, End::OutOfFuel | End::OutOfTime)
}
