//! Matrix products by cuBLASLt: a thin wrapper over its raw call, since it multiplies bf16 into f32 and `cudarc`'s safe one does not.
//!
//! Sums that are split are added up in f32, in an order that the shape fixes: of the ways to reduce them, those that go through the result's own format are not taken.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::cublaslt::sys;
use sys::{
    cublasLtMatmulDescAttributes_t as DescAttribute,
    cublasLtMatmulPreferenceAttributes_t as Preference, cublasStatus_t, cudaDataType,
};

use super::driver::{Fault, Format, Matrix, Product};
use super::handles::{Memory, Stream};
use super::libraries;
use super::shapes::{Shape, Stored};

/// Bytes of workspace, from which algorithms that split sums take room: what NVIDIA advises for Hopper and later, and before.
const WORKSPACE: [usize; 2] = [32 << 20, 8 << 20];
/// Shapes whose algorithm is kept; training meets new ones with each pack.
const KEPT: usize = 4096;
/// Algorithms that are asked for; the first that works is used.
const CHOICES: usize = 4;

/// cuBLASLt, with what it was found to do best for each shape, which is dropped before it.
#[derive(Debug)]
pub(super) struct Products {
    plans: HashMap<Shape, ProductPlan>,
    handle: Handle,
    workspace: Memory,
    workspace_bytes: usize,
}

impl Products {
    /// In the current context, whose device is of this compute capability.
    pub(super) fn new(capability: (u32, u32)) -> Result<Self, Fault> {
        libraries::cublaslt().map_err(Fault::Other)?;
        let workspace_bytes = WORKSPACE[usize::from(capability.0 < 9)];
        Ok(Self {
            handle: Handle::new()?,
            workspace: Memory::new(workspace_bytes)?,
            workspace_bytes,
            plans: HashMap::new(),
        })
    }

    /// While the stream records, cuBLASLt is not asked for algorithms, which some of its versions answer by breaking the recording.
    pub(super) fn multiply(
        &mut self,
        stream: &Stream,
        product: &Product,
        recording: bool,
    ) -> Result<(), Fault> {
        let shape = Shape::of(product);
        if !self.plans.contains_key(&shape) {
            if recording {
                return Err(Fault::Other(format!(
                    "no algorithm was chosen for a product before: {shape:?}"
                )));
            }
            if self.plans.len() >= KEPT {
                self.plans.clear();
            }
            let plan = ProductPlan::new(&self.handle, &shape, self.workspace_bytes)?;
            self.plans.insert(shape, plan);
        }
        let Some(plan) = self.plans.get_mut(&shape) else {
            return Err(none_for(&shape));
        };
        let (one, beta) = (1.0_f32, f32::from(u8::from(product.accumulate)));
        let pointer = |matrix: &Matrix| matrix.address as *mut c_void;
        let result = pointer(&product.y);
        while let Some(algorithm) = plan.algorithms.last() {
            // SAFETY: handles that live; one and beta are f32 of the host's, as the description says; the caller says that the matrices lie on the device as described, and
            // the workspace is ours, used by one product after the other in the stream's order.
            let status = unsafe {
                sys::cublasLtMatmul(
                    self.handle.0,
                    plan.description.0,
                    (&raw const one).cast(),
                    pointer(&product.b),
                    plan.left.0,
                    pointer(&product.a),
                    plan.right.0,
                    (&raw const beta).cast(),
                    result,
                    plan.result.0,
                    result,
                    plan.result.0,
                    algorithm,
                    self.workspace.0 as *mut c_void,
                    self.workspace_bytes,
                    stream.0.cast(),
                )
            };
            match status {
                // Now and then one is offered that is then refused, before anything is done.
                cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED
                | cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE
                | cublasStatus_t::CUBLAS_STATUS_ARCH_MISMATCH => plan.algorithms.pop(),
                done => return told("multiply", done),
            };
        }
        Err(none_for(&shape))
    }
}

fn none_for(shape: &Shape) -> Fault {
    Fault::Other(format!(
        "cuBLASLt has no algorithm for a product: {shape:?}"
    ))
}

/// An error of cuBLASLt in words.
fn told(what: &str, status: cublasStatus_t) -> Result<(), Fault> {
    match status {
        cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED => Err(Fault::Other(format!(
            "cuBLASLt did not {what}: the GPU has failed, and what it held is lost. A run can be taken up again from its last checkpoint"
        ))),
        other => Err(Fault::Other(format!("cuBLASLt did not {what}: {other:?}"))),
    }
}

fn data_type(format: Format) -> cudaDataType {
    match format {
        Format::F32 => cudaDataType::CUDA_R_32F,
        Format::Bf16 => cudaDataType::CUDA_R_16BF,
    }
}

/// What a shape is multiplied with.
#[derive(Debug)]
struct ProductPlan {
    description: Description,
    left: Layout,
    right: Layout,
    result: Layout,
    /// What it can be multiplied by, the best last.
    algorithms: Vec<sys::cublasLtMatmulAlgo_t>,
}

impl ProductPlan {
    /// Asks cuBLASLt for what it takes to be the quickest.
    fn new(handle: &Handle, shape: &Shape, workspace_bytes: usize) -> Result<Self, Fault> {
        let description = Description::new()?;
        description.transpose(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, &shape.left)?;
        description.transpose(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, &shape.right)?;
        let left = Layout::new(&shape.left, shape.operands)?;
        let right = Layout::new(&shape.right, shape.operands)?;
        let result = Layout::new(&shape.result, shape.results)?;
        let wishes = Wishes::new()?;
        let scheme = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        let [a, b, c] = shape.alignments.map(|bytes| bytes as u32);
        wishes.set(
            Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            &(workspace_bytes as u64).to_ne_bytes(),
        )?;
        for (which, value) in [
            (
                Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                scheme,
            ),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c),
            (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c),
        ] {
            wishes.set(which, &value.to_ne_bytes())?;
        }
        let untold = sys::cublasLtMatmulHeuristicResult_t {
            algo: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
            workspaceSize: 0,
            state: cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED,
            wavesCount: 0.0,
            reserved: [0; 4],
        };
        let (mut choices, mut count) = ([untold; CHOICES], 0);
        // SAFETY: handles that live, and room for as many choices as said.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                handle.0,
                description.0,
                left.0,
                right.0,
                result.0,
                result.0,
                wishes.0,
                CHOICES as i32,
                choices.as_mut_ptr(),
                &raw mut count,
            )
        };
        if status != cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED {
            told("choose an algorithm", status)?;
        }
        let works = cublasStatus_t::CUBLAS_STATUS_SUCCESS;
        let offered = choices.iter().take(usize::try_from(count).unwrap_or(0));
        let offered = offered.filter(|choice| choice.state == works);
        let mut algorithms: Vec<_> = offered.map(|choice| choice.algo).collect();
        algorithms.reverse();
        Ok(Self {
            description,
            left,
            right,
            result,
            algorithms,
        })
    }
}

/// cuBLASLt itself.
#[derive(Debug)]
struct Handle(sys::cublasLtHandle_t);

impl Handle {
    fn new() -> Result<Self, Fault> {
        let mut raw = null_mut();
        // SAFETY: a place for a handle.
        told("start", unsafe { sys::cublasLtCreate(&raw mut raw) })?;
        Ok(Self(raw))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cublasLtDestroy(self.0) };
    }
}

/// What is multiplied how.
#[derive(Debug)]
struct Description(sys::cublasLtMatmulDesc_t);

impl Description {
    /// Sums in f32, without TF32, scaled by f32.
    fn new() -> Result<Self, Fault> {
        let mut raw = null_mut();
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        // SAFETY: a place for a description.
        told("describe a product", unsafe {
            sys::cublasLtMatmulDescCreate(&raw mut raw, compute, cudaDataType::CUDA_R_32F)
        })?;
        Ok(Self(raw))
    }

    fn transpose(&self, which: DescAttribute, operand: &Stored) -> Result<(), Fault> {
        // CUBLAS_OP_N and CUBLAS_OP_T of `cublasOperation_t`.
        let operation = i32::from(operand.transposed);
        // SAFETY: a description that lives, and as many bytes as said.
        told("describe an operand", unsafe {
            sys::cublasLtMatmulDescSetAttribute(
                self.0,
                which,
                (&raw const operation).cast(),
                size_of_val(&operation),
            )
        })
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cublasLtMatmulDescDestroy(self.0) };
    }
}

/// How a matrix lies.
#[derive(Debug)]
struct Layout(sys::cublasLtMatrixLayout_t);

impl Layout {
    fn new(matrix: &Stored, format: Format) -> Result<Self, Fault> {
        let mut raw = null_mut();
        // SAFETY: a place for a layout.
        told("describe a matrix", unsafe {
            sys::cublasLtMatrixLayoutCreate(
                &raw mut raw,
                data_type(format),
                matrix.rows as u64,
                matrix.columns as u64,
                matrix.stride as i64,
            )
        })?;
        Ok(Self(raw))
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cublasLtMatrixLayoutDestroy(self.0) };
    }
}

/// What an algorithm must do with.
#[derive(Debug)]
struct Wishes(sys::cublasLtMatmulPreference_t);

impl Wishes {
    fn new() -> Result<Self, Fault> {
        let mut raw = null_mut();
        // SAFETY: a place for a preference.
        told("take wishes", unsafe {
            sys::cublasLtMatmulPreferenceCreate(&raw mut raw)
        })?;
        Ok(Self(raw))
    }

    fn set(&self, which: Preference, value: &[u8]) -> Result<(), Fault> {
        // SAFETY: a preference that lives, and as many bytes as said.
        told("take a wish", unsafe {
            sys::cublasLtMatmulPreferenceSetAttribute(
                self.0,
                which,
                value.as_ptr().cast(),
                value.len(),
            )
        })
    }
}

impl Drop for Wishes {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cublasLtMatmulPreferenceDestroy(self.0) };
    }
}
