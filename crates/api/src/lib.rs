//! What Gantry reads and writes, and how it is spelled on the wire.
//!
//! Custom resources as data ([`crds`]), lean structs that name only the fields some
//! code of Gantry reads or writes, and the labels and resource names that carry QoS
//! class and priority. The crate depends on serde and `object` alone: it knows no
//! client, no server and no clock, so that cores can take its types as facts.

pub mod crds;
