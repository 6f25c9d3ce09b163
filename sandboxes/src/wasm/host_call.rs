//! `host.call`, the guest's only connection to the host: it sends a request of bytes and gets an answer of bytes.

use wasmtime::{Caller, Linker};

use super::fuel::charge;
use super::instance_pair::{InstancePair, Question};
use super::store_data::StoreData;
use super::termination::Termination;
use crate::protocol::{Broken, ProgramConversation};

/// Fuel for a request, in addition to that for its bytes. It takes the host about a microsecond, and a guest a few hundred units. Without a price, a program that only
/// makes requests would run many times as long as any other, until the backstop.
const REQUEST_PRICE: u64 = 12_000;
/// Fuel for each byte of a request, since the host checks it.
const REQUEST_BYTE_PRICE: u64 = 10;

/// What answers a guest's requests.
pub(super) enum HostCall {
    /// Nobody, while the interpreter is warmed and while an answer is being computed.
    Unanswered,
    /// The guest runs the program, and may ask the tests' guest.
    Program(Box<ProgramConversation>, Question),
    /// The guest runs tests.
    Tests(Box<InstancePair>),
}

impl HostCall {
    /// The guest runs the program.
    pub(super) fn program(conversation: ProgramConversation) -> HostCall {
        HostCall::Program(Box::new(conversation), Question::default())
    }

    async fn answer(&mut self, request: &[u8]) -> Result<Vec<u8>, Termination> {
        match self {
            HostCall::Unanswered => Err(Broken::Protocol("a request where nobody answers").into()),
            HostCall::Program(conversation, question) => match conversation.question(request)? {
                Some(text) => Ok(question.ask(text).await),
                None => Ok(conversation.answer(request)?),
            },
            HostCall::Tests(instance_pair) => instance_pair.answer(request).await,
        }
    }

    /// The fuel for the text that the host wrote for the last request, in addition to the answer.
    fn take_price(&mut self) -> u64 {
        match self {
            HostCall::Program(conversation, _) => conversation.take_price(),
            HostCall::Unanswered | HostCall::Tests(_) => 0,
        }
    }

    /// Bytes that a request may have.
    fn longest(&self) -> usize {
        match self {
            HostCall::Unanswered => 0,
            HostCall::Program(conversation, _) => conversation.longest(),
            HostCall::Tests(instance_pair) => instance_pair.tests.longest(),
        }
    }
}

/// Defines `host.call(request, length, &answer, &answer_length) -> 0`. The answer's memory comes from the guest's own `host_alloc`.
pub(super) fn define(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        "host",
        "call",
        |mut caller: Caller<'_, StoreData>,
         (at, length, answer_at, answer_length_at): (u32, u32, u32, u32)| {
            Box::new(async move {
                let memory = caller
                    .data()
                    .memory
                    .ok_or(Broken::Protocol("a request before the memory was known"))?;
                if length as usize > caller.data().host_call.longest() {
                    return Err(
                        Broken::Protocol("a request that is longer than any value may be").into(),
                    );
                }
                let bytes = u64::from(length);
                charge(&mut caller, REQUEST_PRICE + REQUEST_BYTE_PRICE * bytes)?;
                let start = at as usize;
                let request = memory
                    .data(&caller)
                    .get(start..start + length as usize)
                    .ok_or(Broken::Protocol("a request outside the memory"))?
                    .to_vec();
                let mut host_call =
                    std::mem::replace(&mut caller.data_mut().host_call, HostCall::Unanswered);
                let answer = host_call.answer(&request).await;
                let price = host_call.take_price();
                caller.data_mut().host_call = host_call;
                charge(&mut caller, price)?;
                let answer = answer?;
                let size = u32::try_from(answer.len())?;
                charge(&mut caller, u64::from(size))?;
                let alloc = caller
                    .get_export("host_alloc")
                    .and_then(wasmtime::Extern::into_func)
                    .ok_or(Broken::Protocol("the module exports no host_alloc"))?
                    .typed::<u32, u32>(&caller)?;
                let target = alloc.call_async(&mut caller, size.max(1)).await?;
                memory.write(&mut caller, target as usize, &answer)?;
                memory.write(&mut caller, answer_at as usize, &target.to_le_bytes())?;
                memory.write(&mut caller, answer_length_at as usize, &size.to_le_bytes())?;
                Ok(0_i32)
            })
        },
    )?;
    Ok(())
}
