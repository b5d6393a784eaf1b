//! Operations in the background. They own their data and give them back.

use lycaon::Work;

use crate::Group;
use crate::ffi;
use crate::guard::{Result, guard};

macro_rules! works {
    ($($name:ident: $type:ty, $start:ident;)*) => {
        $(
            /// An all_reduce under way.
            #[allow(unreachable_pub, reason = "the bridge makes it reachable")]
            pub struct $name(Work<Vec<$type>>);

            impl $name {
                pub(crate) fn is_done(&self) -> bool {
                    self.0.is_done()
                }

                pub(crate) fn wait(self) -> Result<Vec<$type>> {
                    guard(|| self.0.wait())
                }
            }

            impl Group {
                pub(crate) fn $start(&self, data: Vec<$type>, how: ffi::Op) -> Result<Box<$name>> {
                    guard(|| {
                        Ok(Box::new($name(self.0.all_reduce_async(data, crate::ops::op(how)?)?)))
                    })
                }
            }
        )*
    };
}

works! {
    WorkF32: f32, all_reduce_f32_async;
    WorkF64: f64, all_reduce_f64_async;
}
