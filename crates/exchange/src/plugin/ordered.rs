//! Plugin instances in running order, split by phase when the configuration is compiled, so that a phase
//! without instances is an empty slice. Chains of HTTP and of layer 4 are made of it.

/// A plugin instance as a chain orders it.
pub trait Ordered {
    /// Higher runs first.
    fn priority(&self) -> i64;

    /// The kind's name; it decides between equal priorities, so that the order never depends on how they were
    /// written.
    fn name(&self) -> &str;

    /// Whether the instance takes part in the phase with this number.
    fn takes_part(&self, phase: usize) -> bool;
}

/// Instances in running order, and for each of `PHASES` phases those that take part in it.
pub struct ByPhase<I, const PHASES: usize> {
    all: Box<[I]>,
    by_phase: [Box<[u16]>; PHASES],
}

impl<I, const PHASES: usize> Default for ByPhase<I, PHASES> {
    fn default() -> Self {
        ByPhase { all: Box::default(), by_phase: std::array::from_fn(|_| Box::default()) }
    }
}

impl<I: Ordered, const PHASES: usize> ByPhase<I, PHASES> {
    /// Sorts `instances` and splits them by phase.
    pub fn new(mut instances: Vec<I>) -> Self {
        instances.sort_by(|a, b| b.priority().cmp(&a.priority()).then_with(|| a.name().cmp(b.name())));
        debug_assert!(instances.len() <= usize::from(u16::MAX));
        let of = |phase: usize| {
            let taking_part = (0_u16..).zip(&instances).filter(|(_, one)| one.takes_part(phase));
            taking_part.map(|(index, _)| index).collect()
        };
        ByPhase { by_phase: std::array::from_fn(of), all: instances.into() }
    }
}

impl<I, const PHASES: usize> ByPhase<I, PHASES> {
    /// All instances in running order.
    pub fn all(&self) -> &[I] {
        &self.all
    }

    /// The instances of the phase with this number, in running order.
    pub fn of(&self, phase: usize) -> impl DoubleEndedIterator<Item = &I> + ExactSizeIterator {
        self.by_phase[phase].iter().map(|index| &self.all[usize::from(*index)])
    }

    /// Whether any instance takes part in the phase with this number.
    pub fn has(&self, phase: usize) -> bool {
        !self.by_phase[phase].is_empty()
    }
}
