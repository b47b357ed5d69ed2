//! Names of resources: each spelling once, with its unit, its deprecated spellings
//! and its counterpart in other priority bands.
//!
//! A name that is not listed is an extended resource of somebody else; it is kept as
//! text and never an error.

use std::fmt;

use crate::priority::PriorityBand;

/// What one unit of a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Whole CPUs; fractions are common.
    Cores,
    /// Thousandths of a CPU, as an integer.
    MilliCores,
    /// Bytes.
    Bytes,
    /// Hundredths of one device, as an integer: 100 is a whole one.
    Percent,
    /// Pieces.
    Count,
}

/// A resource that Gantry knows the meaning of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KnownResource {
    /// CPU of production pods.
    Cpu,
    /// Memory of production pods.
    Memory,
    /// Local disk.
    EphemeralStorage,
    /// Room for pods on a node.
    Pods,
    /// CPU that production pods leave unused at present.
    BatchCpu,
    /// Memory that production pods leave unused at present.
    BatchMemory,
    /// CPU that production pods are predicted to leave unused.
    MidCpu,
    /// Memory that production pods are predicted to leave unused.
    MidMemory,
    /// Share of a GPU: compute and memory alike.
    Gpu,
    /// Share of a GPU's compute.
    GpuCore,
    /// Memory of a GPU.
    GpuMemory,
    /// Share of a GPU's memory.
    GpuMemoryRatio,
    /// Number of GPUs over which a share is spread; on a node, 100 for each card.
    GpuShared,
    /// Share of an RDMA network card.
    Rdma,
    /// Share of an FPGA.
    Fpga,
    /// Whole NVIDIA cards.
    NvidiaGpu,
    /// Whole AMD cards.
    AmdGpu,
    /// Whole Hygon cards.
    DcuGpu,
    /// AI cores of a Huawei NPU.
    NpuCore,
    /// AI CPUs of a Huawei NPU.
    NpuCpu,
    /// Share of a Huawei NPU's video engine.
    NpuDvpp,
}

/// One line for each resource: spelling, unit, deprecated spelling.
const TABLE: &[(KnownResource, &str, Unit, Option<&str>)] = {
    use KnownResource as R;
    &[
        (R::Cpu, "cpu", Unit::Cores, None),
        (R::Memory, "memory", Unit::Bytes, None),
        (R::EphemeralStorage, "ephemeral-storage", Unit::Bytes, None),
        (R::Pods, "pods", Unit::Count, None),
        (
            R::BatchCpu,
            "kubernetes.io/batch-cpu",
            Unit::MilliCores,
            Some("koordinator.sh/batch-cpu"),
        ),
        (
            R::BatchMemory,
            "kubernetes.io/batch-memory",
            Unit::Bytes,
            Some("koordinator.sh/batch-memory"),
        ),
        (R::MidCpu, "kubernetes.io/mid-cpu", Unit::MilliCores, None),
        (R::MidMemory, "kubernetes.io/mid-memory", Unit::Bytes, None),
        (R::Gpu, "koordinator.sh/gpu", Unit::Percent, Some("kubernetes.io/gpu")),
        (R::GpuCore, "koordinator.sh/gpu-core", Unit::Percent, Some("kubernetes.io/gpu-core")),
        (R::GpuMemory, "koordinator.sh/gpu-memory", Unit::Bytes, Some("kubernetes.io/gpu-memory")),
        (
            R::GpuMemoryRatio,
            "koordinator.sh/gpu-memory-ratio",
            Unit::Percent,
            Some("kubernetes.io/gpu-memory-ratio"),
        ),
        (R::GpuShared, "koordinator.sh/gpu.shared", Unit::Count, None),
        (R::Rdma, "koordinator.sh/rdma", Unit::Percent, Some("kubernetes.io/rdma")),
        (R::Fpga, "koordinator.sh/fpga", Unit::Percent, Some("kubernetes.io/fpga")),
        (R::NvidiaGpu, "nvidia.com/gpu", Unit::Count, None),
        (R::AmdGpu, "amd.com/gpu", Unit::Count, None),
        (R::DcuGpu, "dcu.com/gpu", Unit::Count, None),
        (R::NpuCore, "huawei.com/npu-core", Unit::Count, None),
        (R::NpuCpu, "huawei.com/npu-cpu", Unit::Count, None),
        (R::NpuDvpp, "huawei.com/npu-dvpp", Unit::Percent, None),
    ]
};

impl KnownResource {
    /// Every known resource.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(resource, ..)| *resource)
    }

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.line().1
    }

    /// What one unit of it is.
    #[must_use]
    pub fn unit(self) -> Unit {
        self.line().2
    }

    /// The older name that is still understood, if there is one.
    #[must_use]
    pub fn deprecated_name(self) -> Option<&'static str> {
        self.line().3
    }

    /// The resource of this name, spelled as today or as it once was.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TABLE
            .iter()
            .find(|(_, current, _, older)| *current == name || *older == Some(name))
            .map(|(resource, ..)| *resource)
    }

    /// The resource that a pod of `band` uses instead of this one; `None` where the
    /// band has no counterpart, as the free band never has. Without a band nothing
    /// changes.
    #[must_use]
    pub fn in_band(self, band: Option<PriorityBand>) -> Option<Self> {
        match (band, self) {
            (None | Some(PriorityBand::Prod), same) => Some(same),
            (Some(PriorityBand::Mid), Self::Cpu) => Some(Self::MidCpu),
            (Some(PriorityBand::Mid), Self::Memory) => Some(Self::MidMemory),
            (Some(PriorityBand::Batch), Self::Cpu) => Some(Self::BatchCpu),
            (Some(PriorityBand::Batch), Self::Memory) => Some(Self::BatchMemory),
            (Some(_), _) => None,
        }
    }

    fn line(self) -> &'static (Self, &'static str, Unit, Option<&'static str>) {
        TABLE
            .iter()
            .find(|(resource, ..)| *resource == self)
            .expect("a test holds that every resource has a line")
    }
}

impl fmt::Display for KnownResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A resource name with deprecated spellings brought up to date; any other name is
/// returned as it is.
#[must_use]
pub fn current_name(name: &str) -> &str {
    KnownResource::named(name).map_or(name, |resource| resource.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_resource_has_one_line_and_no_name_stands_twice() {
        // The last variant has the highest discriminant, so no variant is missing.
        assert_eq!(TABLE.len(), KnownResource::NpuDvpp as usize + 1);
        assert!(TABLE.iter().enumerate().all(|(index, line)| line.0 as usize == index));
        let names: Vec<&str> =
            TABLE.iter().flat_map(|(_, name, _, older)| [Some(*name), *older]).flatten().collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn deprecated_names_are_read_and_never_written() {
        let check = |name, current| assert_eq!(current_name(name), current);
        check("koordinator.sh/batch-cpu", "kubernetes.io/batch-cpu");
        check("koordinator.sh/batch-memory", "kubernetes.io/batch-memory");
        check("kubernetes.io/gpu-memory-ratio", "koordinator.sh/gpu-memory-ratio");
        check("kubernetes.io/rdma", "koordinator.sh/rdma");
        check("koordinator.sh/gpu-shared", "koordinator.sh/gpu-shared");
        check("example.com/widget", "example.com/widget");
        check("cpu", "cpu");
        check("", "");
    }

    #[test]
    fn a_band_has_its_own_cpu_and_memory() {
        use KnownResource as R;
        use PriorityBand as B;
        let check = |resource: R, band, expected| assert_eq!(resource.in_band(band), expected);
        check(R::Cpu, None, Some(R::Cpu));
        check(R::Cpu, Some(B::Prod), Some(R::Cpu));
        check(R::Cpu, Some(B::Mid), Some(R::MidCpu));
        check(R::Memory, Some(B::Mid), Some(R::MidMemory));
        check(R::Cpu, Some(B::Batch), Some(R::BatchCpu));
        check(R::Memory, Some(B::Batch), Some(R::BatchMemory));
        check(R::Cpu, Some(B::Free), None);
        check(R::Gpu, Some(B::Prod), Some(R::Gpu));
        check(R::Gpu, Some(B::Batch), None);
        assert_eq!(R::BatchCpu.unit(), Unit::MilliCores);
        assert_eq!(R::Cpu.unit(), Unit::Cores);
    }

    proptest! {
        #[test]
        fn a_known_name_is_read_back(index in 0..TABLE.len()) {
            let (resource, name, ..) = TABLE[index];
            prop_assert_eq!(KnownResource::named(name), Some(resource));
            prop_assert_eq!(resource.as_str(), name);
        }

        #[test]
        fn bringing_a_name_up_to_date_twice_changes_nothing(
            name in "\\PC*|(koordinator.sh|kubernetes.io)/(gpu|rdma|batch-cpu|gpu-core)",
        ) {
            let once = current_name(&name);
            prop_assert_eq!(current_name(once), once);
        }
    }
}
