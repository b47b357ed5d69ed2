package main

import (
	"context"
	"slices"
	"sync"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	extender "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// witness stands between the evaluator and the plugin DefaultPreemption. It answers what the
// plugin answers, writes it down, and keeps chance and consequences out: candidates are tried from
// the first, and all of them; victims are handed on as pods that are being deleted already, which
// the evaluator judges like any other but has no reason to delete.
type witness struct {
	preemption.Interface
	mutex      sync.Mutex
	reached    bool
	eligible   bool
	ineligible string
	candidates map[string]*extender.Victims
	refused    map[string]*fwk.Status
}

// watchPreemption puts a witness into the profile, or returns nil where it does not preempt.
func watchPreemption(profile framework.Framework) *witness {
	preempts := func(plugin config.Plugin) bool { return plugin.Name == names.DefaultPreemption }
	if !slices.ContainsFunc(profile.ListPlugins().PostFilter.Enabled, preempts) {
		return nil
	}
	for _, plugin := range profile.EnqueueExtensions() {
		if plugin, ok := plugin.(*defaultpreemption.DefaultPreemption); ok {
			w := &witness{Interface: plugin}
			plugin.Evaluator.Interface = w
			return w
		}
	}
	return nil
}

func (w *witness) forget() {
	w.reached, w.eligible, w.ineligible = false, false, ""
	w.candidates, w.refused = map[string]*extender.Victims{}, map[string]*fwk.Status{}
}

func (w *witness) PodEligibleToPreemptOthers(ctx context.Context, pod *core.Pod, nominated *fwk.Status) (bool, string) {
	w.reached = true
	w.eligible, w.ineligible = w.Interface.PodEligibleToPreemptOthers(ctx, pod, nominated)
	return w.eligible, w.ineligible
}

func (w *witness) GetOffsetAndNumCandidates(nodes int32) (int32, int32) {
	return 0, nodes
}

func (w *witness) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *core.Pod, node fwk.NodeInfo, budgets []*policy.PodDisruptionBudget) ([]*core.Pod, int, *fwk.Status) {
	pods, violations, status := w.Interface.SelectVictimsOnNode(ctx, state, pod, node, budgets)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if !status.IsSuccess() {
		w.refused[node.Node().Name] = status
		return pods, violations, status
	}
	leaving := make([]*core.Pod, 0, len(pods))
	for _, victim := range pods {
		copied := victim.DeepCopy()
		if copied.DeletionTimestamp == nil {
			copied.DeletionTimestamp = &meta.Time{}
		}
		leaving = append(leaving, copied)
	}
	w.candidates[node.Node().Name] = &extender.Victims{Pods: leaving, NumPDBViolations: int64(violations)}
	return leaving, violations, status
}

// answer is what was seen; chosen is the node that upstream picked, or none.
func (w *witness) answer(chosen string) *preemptionAnswer {
	answer := &preemptionAnswer{
		Reached:    w.reached,
		Eligible:   w.eligible,
		Reason:     w.ineligible,
		Candidates: map[string]candidateAnswer{},
		Refused:    map[string]statusAnswer{},
		Chosen:     []string{},
	}
	for node, victims := range w.candidates {
		names := make([]string, 0, len(victims.Pods))
		for _, pod := range victims.Pods {
			names = append(names, keyOf(pod))
		}
		answer.Candidates[node] = candidateAnswer{Victims: names, Violations: victims.NumPDBViolations}
		if chosen != "" && criteriaOf(victims) == criteriaOf(w.candidates[chosen]) {
			answer.Chosen = append(answer.Chosen, node)
		}
	}
	for node, status := range w.refused {
		answer.Refused[node] = *answerStatus(status)
	}
	slices.Sort(answer.Chosen)
	return answer
}

// criteria are all that upstream compares between two candidates. Candidates that are equal in
// all of them are picked among by the order of a Go map, so each of them is right.
type criteria struct {
	violations, highest, sum int64
	count                    int
	start                    int64
}

func criteriaOf(victims *extender.Victims) criteria {
	c := criteria{
		violations: victims.NumPDBViolations,
		highest:    int64(corehelpers.PodPriority(victims.Pods[0])),
		count:      len(victims.Pods),
	}
	for _, pod := range victims.Pods {
		c.sum += int64(corehelpers.PodPriority(pod))
	}
	if start := util.GetEarliestPodStartTime(victims); start != nil {
		c.start = start.UnixNano()
	}
	return c
}
