//! What users pass in and what they get back.

use lycaon::DType;
use pyo3::exceptions::{PyModuleNotFoundError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyByteArray, PyComplex, PyFloat, PyInt, PyMemoryView, PyTuple};

use crate::buffer::View;
use crate::{element, errors};

/// Elements to read: where they are, or a copy where they do not follow one another.
pub(crate) enum Memory {
    View(View),
    Copy(Vec<u8>),
}

impl Memory {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Memory::View(view) => view.bytes(),
            Memory::Copy(bytes) => bytes,
        }
    }
}

/// An input: any array, or a Python number.
pub(crate) struct Source<'py> {
    pub(crate) object: Bound<'py, PyAny>,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) memory: Memory,
}

/// An output: an array that can be written where it is.
pub(crate) struct Target<'py> {
    pub(crate) object: Bound<'py, PyAny>,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) view: View,
}

impl<'py> Source<'py> {
    pub(crate) fn read(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let (view, dtype) = match describe(object) {
            Ok(described) => described,
            Err(error) => return number(object)?.ok_or(error),
        };
        let shape = view.shape().to_vec();
        let memory = if view.is_contiguous() {
            Memory::View(view)
        } else {
            Memory::Copy(view.to_contiguous(object.py())?)
        };
        Ok(Source { object: object.clone(), dtype, shape, memory })
    }
}

impl<'py> Target<'py> {
    /// `what` is the argument's name.
    pub(crate) fn of(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Self> {
        let py = object.py();
        let (view, dtype) = describe(object)?;
        if view.is_read_only() {
            let message = format!("{what} is read-only; pass an array that may be written");
            return Err(errors::argument(py, "read_only", message));
        }
        if !view.is_contiguous() {
            let message = format!(
                "{what} is not contiguous (C order), so the result cannot be written into it; \
                 pass a contiguous array and copy"
            );
            return Err(errors::argument(py, "not_contiguous", message));
        }
        Ok(Target { object: object.clone(), dtype, shape: view.shape().to_vec(), view })
    }

    /// Checks that a result of this type and shape fits exactly.
    pub(crate) fn check(self, dtype: DType, shape: &[usize]) -> PyResult<Self> {
        let py = self.object.py();
        if self.dtype != dtype {
            let (has, needs) = (element::numpy_name(self.dtype), element::numpy_name(dtype));
            let message = format!("out holds {has} elements, but the result is of type {needs}");
            return Err(errors::argument(py, "dtype", message));
        }
        if self.shape != shape {
            let (has, needs) = (Shape(&self.shape), Shape(shape));
            let message = format!("out has shape {has}, but the result has shape {needs}");
            return Err(errors::argument(py, "shape", message));
        }
        Ok(self)
    }

    /// A new array. It is of the dtype of `like` if that is a NumPy array; without NumPy it is a
    /// `memoryview`.
    pub(crate) fn new(
        py: Python<'py>,
        dtype: DType,
        shape: &[usize],
        like: Option<&Source<'py>>,
    ) -> PyResult<Self> {
        let object = match numpy(py)? {
            Some(numpy) => numpy.empty(py, dtype, shape, like)?,
            None => memory_view(py, dtype, shape)?,
        };
        let (view, _) = describe_as(&object, Some(dtype))?;
        Ok(Target { object, dtype, shape: shape.to_vec(), view })
    }
}

/// A shape as Python writes it.
pub(crate) struct Shape<'s>(pub(crate) &'s [usize]);

impl std::fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [one] => write!(f, "({one},)"),
            shape => {
                let parts: Vec<String> = shape.iter().map(ToString::to_string).collect();
                write!(f, "({})", parts.join(", "))
            }
        }
    }
}

fn describe(object: &Bound<'_, PyAny>) -> PyResult<(View, DType)> {
    describe_as(object, None)
}

/// The memory of an array and its element type, which is looked for if it is not known.
fn describe_as(object: &Bound<'_, PyAny>, known: Option<DType>) -> PyResult<(View, DType)> {
    let py = object.py();
    let error = match View::of(object) {
        Ok(view) => {
            let dtype = match known {
                Some(dtype) => dtype,
                None => element::from_format(py, view.format(), view.item_size())?,
            };
            return Ok((view, dtype));
        }
        Err(error) => error,
    };
    // NumPy has no format for the types of `ml_dtypes`, but it can show them as integers.
    if let (Some(numpy), Ok(dtype)) = (numpy(py)?, object.getattr(intern!(py, "dtype"))) {
        let dtype = element::from_object(&dtype)?;
        if dtype == DType::Bf16 {
            let array = numpy.asarray.bind(py).call1((object,))?;
            let bits = array.call_method1(intern!(py, "view"), (&numpy.uint16,))?;
            return Ok((View::of(&bits)?, dtype));
        }
    }
    let class = object.get_type().name()?.to_string();
    let refusal = PyTypeError::new_err(format!(
        "{class} has no buffer that can be used; pass a NumPy array, anything with the buffer \
         protocol, or a Python number (a list becomes an array by numpy.asarray)"
    ));
    refusal.set_cause(py, Some(error));
    Err(refusal)
}

/// A Python number, as a scalar of the type that NumPy would give it.
fn number<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Source<'py>>> {
    let (dtype, bytes) = if object.is_instance_of::<PyBool>() {
        (DType::Bool, vec![u8::from(object.is_truthy()?)])
    } else if object.is_instance_of::<PyInt>() {
        (DType::I64, object.extract::<i64>()?.to_ne_bytes().to_vec())
    } else if object.is_instance_of::<PyFloat>() {
        (DType::F64, object.extract::<f64>()?.to_ne_bytes().to_vec())
    } else if let Ok(value) = object.cast::<PyComplex>() {
        let part = |name| value.getattr(name)?.extract::<f64>();
        let parts: [f64; 2] = [part("real")?, part("imag")?];
        (DType::Complex128, parts.iter().flat_map(|part| part.to_ne_bytes()).collect())
    } else {
        return Ok(None);
    };
    let memory = Memory::Copy(bytes);
    Ok(Some(Source { object: object.clone(), dtype, shape: Vec::new(), memory }))
}

/// What is used of NumPy.
struct Numpy {
    ndarray: Py<PyAny>,
    empty: Py<PyAny>,
    empty_like: Py<PyAny>,
    asarray: Py<PyAny>,
    uint16: Py<PyAny>,
    dtypes: [PyOnceLock<Py<PyAny>>; DType::ALL.len()],
}

/// NumPy, imported at the first array; `None` where it is not installed.
fn numpy(py: Python<'_>) -> PyResult<Option<&'static Numpy>> {
    static NUMPY: PyOnceLock<Option<Numpy>> = PyOnceLock::new();
    let found = NUMPY.get_or_try_init(py, || {
        let numpy = match py.import("numpy") {
            Ok(numpy) => numpy,
            // Another failure, like an interruption, may not happen the next time.
            Err(error) if error.is_instance_of::<PyModuleNotFoundError>(py) => return Ok(None),
            Err(error) => return Err(error),
        };
        let get = |name: &str| numpy.getattr(name).map(Bound::unbind);
        Ok(Some(Numpy {
            ndarray: get("ndarray")?,
            empty: get("empty")?,
            empty_like: get("empty_like")?,
            asarray: get("asarray")?,
            uint16: get("uint16")?,
            dtypes: [const { PyOnceLock::new() }; DType::ALL.len()],
        }))
    })?;
    Ok(found.as_ref())
}

impl Numpy {
    fn empty<'py>(
        &self,
        py: Python<'py>,
        dtype: DType,
        shape: &[usize],
        like: Option<&Source<'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match like.filter(|like| like.object.get_type().is(&self.ndarray)) {
            // A contiguous array of the same shape: the shortest way.
            Some(like) if like.shape == shape && matches!(like.memory, Memory::View(_)) => {
                self.empty_like.bind(py).call1((&like.object,))
            }
            Some(like) => {
                let dtype = like.object.getattr(intern!(py, "dtype"))?;
                self.empty.bind(py).call1((PyTuple::new(py, shape)?, dtype))
            }
            None => {
                let dtype = self.dtype(py, dtype)?;
                self.empty.bind(py).call1((PyTuple::new(py, shape)?, dtype))
            }
        }
    }

    fn dtype(&self, py: Python<'_>, dtype: DType) -> PyResult<&Py<PyAny>> {
        self.dtypes[dtype as usize].get_or_try_init(py, || {
            let module = if dtype == DType::Bf16 { "ml_dtypes" } else { "numpy" };
            let name = if dtype == DType::Bool { "bool_" } else { element::numpy_name(dtype) };
            match py.import(module) {
                Ok(module) => {
                    let class = module.getattr(name)?;
                    Ok(py.import("numpy")?.getattr("dtype")?.call1((class,))?.unbind())
                }
                Err(_) => Err(errors::argument(
                    py,
                    "dtype",
                    "a new bfloat16 array needs the package ml_dtypes; install it or pass out=",
                )),
            }
        })
    }
}

/// An array without NumPy. Where `memoryview` has no letter for the type, its bytes.
fn memory_view<'py>(py: Python<'py>, dtype: DType, shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let count: usize = shape.iter().product();
    let bytes = PyByteArray::new_with(py, count * dtype.size(), |_| Ok(()))?;
    let view = PyMemoryView::from(bytes.as_any())?.into_any();
    let cast = intern!(py, "cast");
    match element::struct_letter(dtype) {
        // `cast` knows no empty dimensions.
        Some(letter) if count == 0 => view.call_method1(cast, (letter,)),
        Some(letter) => view.call_method1(cast, (letter, PyTuple::new(py, shape)?)),
        None => Ok(view),
    }
}
