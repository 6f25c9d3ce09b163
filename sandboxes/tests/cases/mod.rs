//! The guarantees of every sandbox, as test cases. The tests of each sandbox run them on that sandbox.

pub(crate) mod isolation;
pub(crate) mod judging;
pub(crate) mod limits;
pub(crate) mod misuse;
pub(crate) mod reading;
pub(crate) mod values;
pub(crate) mod whole_programs;

use sandboxes::{Call, End, Limits, Program, Request, Run, Sandbox, SandboxError, Work};

/// Declares a test for each case with the sandbox that `$sandbox()` returns. If that returns `None`, it has printed the reason.
macro_rules! cases {
    ($sandbox:path) => {
        crate::cases::cases! { $sandbox;
            values {
                every_kind_of_value_goes_in_and_comes_out_unchanged
                numpy_values_and_subclasses_come_back_as_their_plain_data
                a_value_without_encoding_is_opaque
                a_value_nested_too_deeply_or_in_itself_is_too_large
                a_long_value_becomes_a_digest_and_equal_values_have_equal_digests
                a_value_is_the_same_in_binary_form_and_in_json
                a_long_list_is_encoded_like_its_elements
                a_number_of_many_digits_comes_back_despite_the_interpreters_own_limit
            }
            misuse {
                source_that_does_not_load_is_unloadable
                any_exception_ends_only_its_call
                a_program_that_exits_the_process_keeps_its_answers
                what_a_program_does_to_its_interpreter_changes_nothing_for_the_harness
                forged_answers_count_as_the_answers_and_one_out_of_turn_ends_the_run
                bytes_that_are_not_a_request_end_the_run
                arguments_that_cannot_be_sent_are_not_the_programs_fault
            }
            judging {
                each_test_passes_or_raises
                a_watch_may_end_a_run
                arguments_that_the_program_changes_are_changed_for_the_test
                what_the_program_leaves_alone_stays_the_tests_own
                exceptions_keep_their_type
                iterators_and_objects_of_the_library_arrive_unchanged
                what_tests_put_in_place_of_the_library_reaches_the_program
                tests_see_the_data_of_results_and_never_their_methods
                a_failed_test_names_the_type_of_an_opaque_value
                a_run_whose_tests_never_call_the_program_is_uncalled
                the_program_keeps_its_state_between_calls_and_cannot_reach_the_tests
                a_program_that_stops_ends_the_run_with_the_tests_so_far
                broken_test_code_of_a_task_is_not_the_programs_fault
            }
            limits {
                a_loop_inside_one_library_call_is_metered
                an_abandoned_run_is_broken_off
                a_program_that_takes_all_memory_is_out_of_memory
                a_memory_limit_below_the_interpreters_size_is_refused
                endless_recursion_raises_and_the_next_call_works
                a_program_with_a_raised_recursion_limit_still_gets_a_verdict
                deeply_nested_source_is_refused_by_the_compiler_without_a_crash
                output_is_returned_up_to_its_limit
                sleeping_takes_only_virtual_time
            }
            reading {
                the_outline_of_a_text_does_not_depend_on_earlier_texts
            }
            whole_programs {
                a_whole_program_reads_and_writes_and_exits
                an_uncaught_exception_is_on_standard_error
                whole_programs_have_limits
                output_is_limited_and_never_cut_short_unnoticed
                long_input_and_output_come_through
                a_whole_program_that_speaks_to_the_host_lies_only_about_its_own_output
                runs_of_whole_programs_share_nothing
            }
            isolation {
                calls_of_one_run_share_an_instance_and_runs_share_nothing
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

/// The default limits, changed.
pub(crate) fn changed(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

/// The program with this source. Its function is `f`.
pub(crate) fn program(source: &str) -> Program<'_> {
    Program {
        source,
        entry_point: "f",
    }
}

/// Runs `f` of `source` once for each of `calls`.
pub(crate) fn run_within(
    sandbox: &dyn Sandbox,
    source: &str,
    calls: &[&str],
    limits: &Limits,
) -> Run {
    try_run(sandbox, source, calls, limits).unwrap()
}

/// A call that returned this value.
pub(crate) fn returned(value: impl Into<String>) -> Call {
    Call::Returned(value.into())
}

/// As [`run_within`], but there may be no run.
pub(crate) fn try_run(
    sandbox: &dyn Sandbox,
    source: &str,
    calls: &[&str],
    limits: &Limits,
) -> Result<Run, SandboxError> {
    let calls: Vec<String> = calls.iter().map(|&call| call.to_owned()).collect();
    let work = Work::Calls {
        program: program(source),
        calls: &calls,
    };
    sandbox.run(&Request::new(work, limits))
}

pub(crate) fn run(sandbox: &dyn Sandbox, source: &str, calls: &[&str]) -> Run {
    run_within(sandbox, source, calls, &Limits::default())
}

/// The value that `f()` returns, or how else it ends, as text.
pub(crate) fn result(sandbox: &dyn Sandbox, source: &str) -> String {
    let run = run(sandbox, source, &["[]"]);
    match (run.calls.as_slice(), &run.end) {
        ([Call::Returned(value)], End::Completed) => value.clone(),
        ([Call::Raised { kind, message }], End::Completed) => format!("{kind}: {message}"),
        other => format!("{other:?}"),
    }
}

/// Fails unless the sandbox cannot do this, for a reason with all these parts.
#[track_caller]
pub(crate) fn assert_unusable<T>(outcome: Result<T, SandboxError>, says: &[&str]) {
    match outcome.err() {
        Some(SandboxError::Unusable(why)) => {
            assert!(says.iter().all(|part| why.contains(part)), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

/// Whether a limit on fuel or on time ended the run.
pub(crate) fn timed_out(end: &End) -> bool {
    matches!(end, End::OutOfFuel | End::OutOfTime)
}
