package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// probe asks what the scheduler would do with a pod now, and changes nothing.
func (s *script) probe(question *probeQuestion) (*probeAnswer, error) {
	var key string
	if err := json.Unmarshal(question.Pod, &key); err == nil {
		pod, err := s.cluster.pod(key)
		if err != nil {
			return nil, err
		}
		return s.judge(pod, question)
	}
	kind, object, err := s.cluster.decode(question.Pod)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	pod, ok := object.(*core.Pod)
	if !ok {
		return nil, fmt.Errorf("probe: a %s is not a pod", kind)
	}
	if pod.Namespace == "" {
		pod.Namespace = core.NamespaceDefault
	}
	if _, err := s.cluster.pod(keyOf(pod)); err == nil {
		return nil, fmt.Errorf("probe: there is a pod %s; ask for it by name", keyOf(pod))
	}
	if err := s.cluster.store(kind, pod); err != nil {
		return nil, err
	}
	answer, err := s.judge(pod, question)
	return answer, errors.Join(err, s.cluster.remove(kind, pod.Namespace, pod.Name))
}

func (s *script) judge(pod *core.Pod, question *probeQuestion) (*probeAnswer, error) {
	answer := &probeAnswer{Pod: keyOf(pod)}
	if pod.Spec.NodeName != "" {
		return nil, fmt.Errorf("pod %s is bound to %s", answer.Pod, pod.Spec.NodeName)
	}
	profile, err := s.profile(pod)
	if err != nil {
		return nil, err
	}
	if pod.DeletionTimestamp != nil {
		answer.Skipped = "the pod is being deleted"
		return answer, nil
	}
	for _, plugin := range profile.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(s.ctx, pod); !status.IsSuccess() {
			answer.Gated = answerStatus(status.WithPlugin(plugin.Name()))
			return answer, nil
		}
	}
	// The real scheduler copies only the nodes that changed, and with them the number of nodes that
	// have an image: what it knows of the others is old. A fresh snapshot has no such memory, so an
	// answer depends on the cluster and not on the questions before.
	*s.snapshot = *schedulercache.NewEmptySnapshot()
	if err := s.scheduler.Cache.UpdateSnapshot(klog.FromContext(s.ctx), s.snapshot); err != nil {
		return nil, err
	}
	state := framework.NewCycleState()
	feasible, err := s.filter(profile, state, pod, answer)
	if err != nil || answer.Error != "" {
		return answer, err
	}
	if len(feasible) == 0 {
		return answer, s.explain(profile, pod, question, answer)
	}
	answer.Volumes = volumesOf(state, feasible)
	return answer, s.score(profile, state, pod, feasible, answer)
}

// filter tries every node and returns those that take the pod.
func (s *script) filter(profile framework.Framework, state fwk.CycleState, pod *core.Pod, answer *probeAnswer) ([]fwk.NodeInfo, error) {
	nodes, err := s.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	answer.Feasible, answer.Nodes = []string{}, map[string]statusAnswer{}
	narrowed, status, plugins := profile.RunPreFilterPlugins(s.ctx, state, pod)
	if !status.IsSuccess() {
		answer.PreFilter = answerStatus(status)
		if !status.IsRejected() {
			answer.Error = status.AsError().Error()
		}
		for _, node := range nodes {
			answer.Nodes[node.Node().Name] = *answer.PreFilter
		}
		return nil, nil
	}
	if !narrowed.AllNodes() {
		answer.PreFilterNodes = sets.List(narrowed.NodeNames)
		answer.PreFilterPlugins = sets.List(plugins)
		// The real scheduler tries the nominated node first, and who refuses it there is blamed for
		// the nodes that PreFilter left out as well.
		if node, err := s.snapshot.Get(pod.Status.NominatedNodeName); err == nil {
			status := profile.RunFilterPluginsWithNominatedPods(s.ctx, state, pod, node)
			if status.IsRejected() {
				plugins.Insert(status.Plugin())
			}
		}
	}
	absent := statusAnswer{
		Code:    fwk.UnschedulableAndUnresolvable.String(),
		Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(plugins))},
	}
	var feasible []fwk.NodeInfo
	for _, node := range nodes {
		name := node.Node().Name
		// The node that the pod is nominated to is tried first, whatever PreFilter said of it.
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) && pod.Status.NominatedNodeName != name {
			answer.Nodes[name] = absent
			continue
		}
		status := profile.RunFilterPluginsWithNominatedPods(s.ctx, state, pod, node)
		switch {
		case status.Code() == fwk.Error:
			answer.Nodes[name] = *answerStatus(status)
			answer.Error = status.AsError().Error()
		case status.IsSuccess():
			feasible = append(feasible, node)
			answer.Feasible = append(answer.Feasible, name)
		default:
			answer.Nodes[name] = *answerStatus(status)
		}
	}
	slices.Sort(answer.Feasible)
	return feasible, nil
}

// score is what every score plugin thinks of every feasible node, though upstream asks none where
// one node is left.
func (s *script) score(profile framework.Framework, state fwk.CycleState, pod *core.Pod, feasible []fwk.NodeInfo, answer *probeAnswer) error {
	if status := profile.RunPreScorePlugins(s.ctx, state, pod, feasible); !status.IsSuccess() {
		answer.Error = status.AsError().Error()
		return nil
	}
	scores, status := profile.RunScorePlugins(s.ctx, state, pod, feasible)
	if !status.IsSuccess() {
		answer.Error = status.AsError().Error()
		return nil
	}
	answer.Scores, answer.Totals = map[string]map[string]int64{}, map[string]int64{}
	var best int64
	for i, node := range scores {
		for _, plugin := range node.Scores {
			if answer.Scores[plugin.Name] == nil {
				answer.Scores[plugin.Name] = map[string]int64{}
			}
			answer.Scores[plugin.Name][node.Name] = plugin.Score
		}
		answer.Totals[node.Name] = node.TotalScore
		if i == 0 || node.TotalScore > best {
			best = node.TotalScore
		}
	}
	answer.Choice = []string{}
	for node, total := range answer.Totals {
		if total == best {
			answer.Choice = append(answer.Choice, node)
		}
	}
	// A nomination that still holds is taken without a look at the scores.
	if nominated := pod.Status.NominatedNodeName; slices.Contains(answer.Feasible, nominated) {
		answer.Choice = []string{nominated}
	}
	slices.Sort(answer.Choice)
	return nil
}

// explain runs the real scheduling cycle of a pod that fits nowhere, up to and with preemption.
func (s *script) explain(profile framework.Framework, pod *core.Pod, question *probeQuestion, answer *probeAnswer) error {
	state := framework.NewCycleState()
	_, err := s.scheduler.SchedulePod(s.ctx, profile, state, pod)
	var misfit *framework.FitError
	switch {
	case errors.Is(err, scheduler.ErrNoNodesAvailable):
		answer.Message = err.Error()
		return nil
	case !errors.As(err, &misfit):
		return fmt.Errorf("pod %s: every node refuses it, but the scheduler says %v", answer.Pod, err)
	}
	for name, seen := range answer.Nodes {
		if said := answerStatus(misfit.Diagnosis.NodeToStatus.Get(name)); !said.equal(&seen) {
			return fmt.Errorf("pod %s: node %s was refused with %v, but the scheduler says %v", answer.Pod, name, seen, *said)
		}
	}
	answer.UnschedulablePlugins = sets.List(misfit.Diagnosis.UnschedulablePlugins)
	answer.PendingPlugins = sets.List(misfit.Diagnosis.PendingPlugins)
	if profile.HasPostFilterPlugins() && !question.NoPreemption {
		watcher := s.witnesses[pod.Spec.SchedulerName]
		if watcher != nil {
			watcher.forget()
		}
		result, status := profile.RunPostFilterPlugins(s.ctx, state, pod, misfit.Diagnosis.NodeToStatus)
		misfit.Diagnosis.PostFilterMsg = status.Message()
		nominated := ""
		if result != nil && result.NominatingInfo != nil {
			nominated = result.NominatedNodeName
		}
		if watcher != nil {
			answer.Preemption = watcher.answer(nominated)
			answer.Preemption.Code = status.Code().String()
		}
	}
	answer.Message = misfit.Error()
	return nil
}
