// Empty on purpose: with an assembly file in the package, Go accepts functions without a body,
// and private.go declares two that live in the scheduling queue.
