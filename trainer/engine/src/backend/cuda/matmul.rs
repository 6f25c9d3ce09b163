//! Matrix products by cuBLASLt, through a thin wrapper over its raw call: cuBLASLt multiplies bf16 into f32, and `cudarc`'s safe call does not.
//!
//! Split sums are added up in f32, in an order that the shape determines. Reductions in the result's own format are excluded.
//!
//! cuBLASLt is asked once for each class of shapes ([`Shape::of_class`]), and its choice holds for every number of tokens in the class. A shape that none of the
//! algorithms supports is asked for by itself. So an algorithm depends on the shape alone, and not on earlier products or on measured times.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;
use sys::{
    cublasLtMatmulDescAttributes_t as DescAttribute,
    cublasLtMatmulPreferenceAttributes_t as Preference, cublasStatus_t, cudaDataType,
};

use super::column_major::{Shape, Stored};
use super::driver::{Fault, Matrix, Product};
use super::handles::{Memory, Owned, Stream};
use super::libraries;
use crate::backend::Dtype;

/// Bytes of workspace for algorithms that split sums, as NVIDIA advises for Hopper and later.
pub(super) const MAX_WORKSPACE: usize = 32 << 20;
/// The same, and for earlier GPUs.
const WORKSPACE: [usize; 2] = [MAX_WORKSPACE, 8 << 20];
/// Maximum number of stored plans, one for each shape. Training encounters new shapes with each pack.
const MAX_PLANS: usize = 4096;
/// Number of algorithms to request; the first that works is used.
const CHOICES: usize = 4;

/// cuBLASLt and the algorithms that it chose. The plans are dropped before the handle.
#[derive(Debug)]
pub(super) struct CublasLt {
    plans: HashMap<Shape, ProductPlan>,
    /// The algorithms of each class of shapes, the best last. A shape that they do not support has an entry of its own.
    choices: HashMap<Shape, Vec<Algorithm>>,
    handle: Object<sys::cublasLtHandle_t>,
    workspace: Memory,
    workspace_bytes: usize,
}

impl CublasLt {
    /// Opens cuBLASLt in the current context. The compute capability is that of its device.
    pub(super) fn new(capability: (u32, u32)) -> Result<Self, Fault> {
        libraries::cublaslt().map_err(Fault::Other)?;
        let workspace_bytes = WORKSPACE[usize::from(capability.0 < 9)];
        let handle = check("start", result::create_handle())?;
        Ok(Self {
            handle: Object::of(handle, result::destroy_handle),
            workspace: Memory::new(workspace_bytes)?,
            workspace_bytes,
            plans: HashMap::new(),
            choices: HashMap::new(),
        })
    }

    /// Multiplies. While the stream is recording, cuBLASLt is not asked for algorithms, because some of its versions then break the recording.
    pub(super) fn multiply(
        &mut self,
        stream: &Stream,
        product: &Product,
        recording: bool,
    ) -> Result<(), Fault> {
        let shape = Shape::of(product);
        if !self.plans.contains_key(&shape) {
            let class = Shape::of_class(product);
            // A dropped plan is made again from its algorithms, which are kept. A shape has some of its own only if its class has some too.
            if recording && !self.choices.contains_key(&class) {
                return Err(Fault::Other(format!(
                    "no algorithm has been chosen yet for a product: {shape:?}"
                )));
            }
            if self.plans.len() >= MAX_PLANS {
                self.plans.clear();
            }
            let plan = self.planned(&shape, class)?;
            self.plans.insert(shape, plan);
        }
        let mut refusal = cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED;
        let Some(plan) = self.plans.get_mut(&shape) else {
            return Err(no_algorithm(&shape, refusal));
        };
        loop {
            while let Some(algorithm) = plan.algorithms.last() {
                let status = plan.operation.multiply(
                    (&self.handle, stream),
                    product,
                    algorithm,
                    (&self.workspace, self.workspace_bytes),
                );
                match status {
                    cublasStatus_t::CUBLAS_STATUS_SUCCESS
                    | cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED => {
                        return check("multiply", status.result());
                    }
                    // The class's algorithm does not support this shape, or cuBLASLt offered it and then rejected it. In both cases nothing has been computed
                    // yet.
                    _ => refusal = status,
                }
                plan.algorithms.pop();
            }
            if plan.is_own_choice || recording {
                return Err(no_algorithm(&shape, refusal));
            }
            plan.algorithms = choose(&self.handle, &plan.operation, &shape, self.workspace_bytes)?;
            plan.is_own_choice = true;
            self.choices.insert(shape, plan.algorithms.clone());
        }
    }

    /// A shape's plan, with its own algorithms if it has some, else with those of its class. For a new class, cuBLASLt is asked first.
    fn planned(&mut self, shape: &Shape, class: Shape) -> Result<ProductPlan, Fault> {
        let own = self.choices.get(shape);
        let algorithms = match own.or_else(|| self.choices.get(&class)) {
            Some(algorithms) => algorithms.clone(),
            None => {
                let operation = Operation::new(&class)?;
                let chosen = choose(&self.handle, &operation, &class, self.workspace_bytes)?;
                self.choices.insert(class, chosen.clone());
                chosen
            }
        };
        Ok(ProductPlan {
            operation: Operation::new(shape)?,
            algorithms,
            is_own_choice: self.choices.contains_key(shape),
        })
    }
}

fn no_algorithm(shape: &Shape, refusal: cublasStatus_t) -> Fault {
    Fault::Other(format!(
        "cuBLASLt has no algorithm for a product ({refusal:?}): {shape:?}"
    ))
}

/// Turns an error of cuBLASLt into a message. `what` completes "cuBLASLt did not".
fn check<T>(what: &str, result: Result<T, CublasError>) -> Result<T, Fault> {
    result.map_err(|CublasError(status)| match status {
        cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED => Fault::Other(format!(
            "cuBLASLt did not {what}: the GPU has failed, and the content of its memory is lost. Resume the run from its last checkpoint"
        )),
        other => Fault::Other(format!("cuBLASLt did not {what}: {other:?}")),
    })
}

fn data_type(format: Dtype) -> cudaDataType {
    match format {
        Dtype::F32 => cudaDataType::CUDA_R_32F,
        Dtype::Bf16 => cudaDataType::CUDA_R_16BF,
    }
}

type Algorithm = sys::cublasLtMatmulAlgo_t;

/// A shape's product, and its algorithms.
#[derive(Debug)]
struct ProductPlan {
    operation: Operation,
    /// Algorithms for the product, the best last.
    algorithms: Vec<Algorithm>,
    /// Whether cuBLASLt chose them for this very shape.
    is_own_choice: bool,
}

/// Descriptions of a product and its matrices.
#[derive(Debug)]
struct Operation {
    description: Object<sys::cublasLtMatmulDesc_t>,
    left: Object<sys::cublasLtMatrixLayout_t>,
    right: Object<sys::cublasLtMatrixLayout_t>,
    result: Object<sys::cublasLtMatrixLayout_t>,
}

impl Operation {
    fn new(shape: &Shape) -> Result<Self, Fault> {
        // Sums in f32, without TF32, with f32 factors.
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let description = result::create_matmul_desc(compute, cudaDataType::CUDA_R_32F);
        let description = check("describe a product", description)?;
        let description = Object::of(description, result::destroy_matmul_desc);
        for (which, operand) in [
            (DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, &shape.left),
            (DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, &shape.right),
        ] {
            // CUBLAS_OP_N and CUBLAS_OP_T of `cublasOperation_t`.
            let operation = i32::from(operand.transposed).to_ne_bytes();
            let (bytes, count) = (operation.as_ptr().cast(), operation.len());
            // SAFETY: the description is alive, and there are as many bytes as stated.
            check("describe an operand", unsafe {
                result::set_matmul_desc_attribute(description.raw, which, bytes, count)
            })?;
        }
        let layout = |matrix: &Stored, format| {
            let (rows, columns) = (matrix.rows as u64, matrix.columns as u64);
            let stride = matrix.stride as i64;
            let layout = result::create_matrix_layout(data_type(format), rows, columns, stride);
            let layout = check("describe a matrix", layout)?;
            Ok::<_, Fault>(Object::of(layout, result::destroy_matrix_layout))
        };
        Ok(Self {
            description,
            left: layout(&shape.left, shape.operands)?,
            right: layout(&shape.right, shape.operands)?,
            result: layout(&shape.result, shape.results)?,
        })
    }

    /// Starts a product of this shape. cuBLASLt first checks that the algorithm supports it.
    fn multiply(
        &self,
        (handle, stream): (&Object<sys::cublasLtHandle_t>, &Stream),
        product: &Product,
        algorithm: &Algorithm,
        (workspace, workspace_bytes): (&Memory, usize),
    ) -> cublasStatus_t {
        let (one, beta) = (1.0_f32, f32::from(u8::from(product.accumulate)));
        let pointer = |matrix: &Matrix| matrix.address as *mut c_void;
        let result = pointer(&product.y);
        // SAFETY: the handles are alive. `one` and `beta` are f32 on the host, as the description states. The caller promises that the matrices are on the
        // device as described. The workspace is ours, and products use it one after the other in the stream's order.
        unsafe {
            sys::cublasLtMatmul(
                handle.raw,
                self.description.raw,
                (&raw const one).cast(),
                pointer(&product.b),
                self.left.raw,
                pointer(&product.a),
                self.right.raw,
                (&raw const beta).cast(),
                result,
                self.result.raw,
                result,
                self.result.raw,
                algorithm,
                workspace.raw as *mut c_void,
                workspace_bytes,
                stream.raw.cast(),
            )
        }
    }
}

/// Asks cuBLASLt for the algorithms that it expects to be the fastest for a shape, the best last.
fn choose(
    handle: &Object<sys::cublasLtHandle_t>,
    operation: &Operation,
    shape: &Shape,
    workspace_bytes: usize,
) -> Result<Vec<Algorithm>, Fault> {
    let preferences = check("create preferences", result::create_matmul_pref())?;
    let preferences = Object::of(preferences, result::destroy_matmul_pref);
    let set = |which, value: &[u8]| {
        let (bytes, count) = (value.as_ptr().cast(), value.len());
        // SAFETY: the preferences are alive, and there are as many bytes as stated.
        check("accept a preference", unsafe {
            result::set_matmul_pref_attribute(preferences.raw, which, bytes, count)
        })
    };
    let scheme = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
    let [a, b, c] = shape.alignments.map(|bytes| bytes as u32);
    set(
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
        set(which, &value.to_ne_bytes())?;
    }
    let empty = sys::cublasLtMatmulHeuristicResult_t {
        algo: Algorithm { data: [0; 8] },
        workspaceSize: 0,
        state: cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED,
        wavesCount: 0.0,
        reserved: [0; 4],
    };
    let (mut choices, mut count) = ([empty; CHOICES], 0);
    // SAFETY: the handles are alive, and there is room for as many choices as stated.
    let status = unsafe {
        sys::cublasLtMatmulAlgoGetHeuristic(
            handle.raw,
            operation.description.raw,
            operation.left.raw,
            operation.right.raw,
            operation.result.raw,
            operation.result.raw,
            preferences.raw,
            CHOICES as i32,
            choices.as_mut_ptr(),
            &raw mut count,
        )
    };
    if status != cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED {
        check("choose an algorithm", status.result())?;
    }
    let supported = cublasStatus_t::CUBLAS_STATUS_SUCCESS;
    let offered = choices.iter().take(usize::try_from(count).unwrap_or(0));
    let offered = offered.filter(|choice| choice.state == supported);
    let mut algorithms: Vec<_> = offered.map(|choice| choice.algo).collect();
    algorithms.reverse();
    Ok(algorithms)
}

/// One of cuBLASLt's objects.
type Object<T> = Owned<T, CublasError>;
