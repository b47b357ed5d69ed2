package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const (
	// backoffInterval is how often the real queue looks for pods whose back-off ended.
	backoffInterval = time.Second
	// unschedulableInterval is how often it looks for pods that were left for too long.
	unschedulableInterval = 30 * time.Second
)

func (s *script) queue() *queue.PriorityQueue {
	return s.scheduler.SchedulingQueue.(*queue.PriorityQueue)
}

// advance moves the clock, and does what the real queue does at each moment that is passed: at
// whole seconds it flushes what has backed off, and every 30 seconds from the start of the script
// what was left unschedulable for too long.
func (s *script) advance(by time.Duration) error {
	if by < 0 || by > maxAdvance {
		return fmt.Errorf("advance: %s is not between 0 and %s", by, maxAdvance)
	}
	logger := klog.FromContext(s.ctx)
	end := s.clock.Now().Add(by)
	for {
		now := s.clock.Now()
		backoff := now.Truncate(backoffInterval).Add(backoffInterval)
		passed := now.Sub(s.started)
		leftover := s.started.Add(passed.Truncate(unschedulableInterval) + unschedulableInterval)
		next := backoff
		if leftover.Before(backoff) {
			next = leftover
		}
		if next.After(end) {
			s.clock.SetTime(end)
			return nil
		}
		s.clock.SetTime(next)
		if next.Equal(backoff) {
			flushBackoff(s.queue(), logger)
		}
		if next.Equal(leftover) {
			flushUnschedulable(s.queue(), logger)
		}
	}
}

// pop takes the next pod for an attempt, or returns "" where the real queue would wait.
func (s *script) pop() (string, error) {
	waiting := true
	if len(s.queue().PodsInActiveQ()) > 0 {
		waiting = false
	}
	// A pod that failed for an error is not taken out of its back-off early.
	for _, pod := range s.queue().PodsInBackoffQ() {
		if info, ok := s.queue().GetPod(pod.Name, pod.Namespace); ok && !failedByError(info) {
			waiting = false
		}
	}
	if waiting {
		return "", nil
	}
	info, err := s.queue().Pop(klog.FromContext(s.ctx))
	if err != nil {
		return "", err
	}
	key := keyOf(info.Pod)
	s.inFlight[key] = info
	return key, nil
}

// attempt pops a pod and judges it. A pod that fits is bound to the node that the step names; one
// that does not goes back with the plugins that refused it.
func (s *script) attempt(order *attemptStep) (stepAnswer, error) {
	popped, err := s.pop()
	answer := stepAnswer{Popped: &popped}
	if err != nil || popped == "" {
		return answer, err
	}
	pod := s.inFlight[popped].Pod
	answer.Probe, err = s.judge(pod, &probeQuestion{NoPreemption: true})
	switch {
	case err != nil:
		return answer, err
	case answer.Probe.Skipped != "":
		delete(s.inFlight, popped)
		s.queue().Done(pod.UID)
		return answer, nil
	case len(answer.Probe.Feasible) == 0 || answer.Probe.Error != "":
		return answer, s.reject(&rejectStep{
			Pod: popped, Unschedulable: answer.Probe.UnschedulablePlugins,
			Pending: answer.Probe.PendingPlugins, Nominate: order.Nominate,
		})
	case !slices.Contains(answer.Probe.Feasible, order.Node):
		return answer, fmt.Errorf("attempt: pod %s fits %v, not node %q", popped, answer.Probe.Feasible, order.Node)
	}
	return answer, s.bind(&bindStep{Pod: popped, Node: order.Node})
}

func failedByError(info *framework.QueuedPodInfo) bool {
	return info.UnschedulablePlugins.Len() == 0 && info.PendingPlugins.Len() == 0
}

// take is the pod that was popped and has not been answered for.
func (s *script) take(key string) (*framework.QueuedPodInfo, error) {
	if !strings.Contains(key, "/") {
		key = core.NamespaceDefault + "/" + key
	}
	info, ok := s.inFlight[key]
	if !ok {
		return nil, fmt.Errorf("pod %s has not been popped", key)
	}
	delete(s.inFlight, key)
	return info, nil
}

// reject ends an attempt without a node, through the handler that the real scheduler calls.
func (s *script) reject(verdict *rejectStep) error {
	info, err := s.take(verdict.Pod)
	if err != nil {
		return err
	}
	profile, err := s.profile(info.Pod)
	if err != nil {
		return err
	}
	var status *fwk.Status
	if len(verdict.Unschedulable)+len(verdict.Pending) == 0 {
		status = fwk.AsStatus(errors.New("the script says that the attempt failed"))
	} else {
		status = fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{
			Pod: info.Pod,
			Diagnosis: framework.Diagnosis{
				NodeToStatus:         framework.NewDefaultNodeToStatus(),
				UnschedulablePlugins: sets.New(verdict.Unschedulable...),
				PendingPlugins:       sets.New(verdict.Pending...),
			},
		})
	}
	var nomination *fwk.NominatingInfo
	if verdict.Nominate != nil {
		nomination = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: *verdict.Nominate}
	}
	s.scheduler.FailureHandler(s.ctx, profile, info, status, nomination, s.clock.Now())
	return nil
}

// bind plays a successful attempt: the pod is assumed, leaves the queue and comes back bound.
func (s *script) bind(order *bindStep) error {
	pod, err := s.cluster.pod(order.Pod)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != "" {
		return fmt.Errorf("pod %s is bound to %s", keyOf(pod), pod.Spec.NodeName)
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = order.Node
	if _, popped := s.inFlight[keyOf(pod)]; popped {
		delete(s.inFlight, keyOf(pod))
		logger := klog.FromContext(s.ctx)
		if err := s.scheduler.Cache.AssumePod(logger, bound.DeepCopy()); err != nil {
			return err
		}
		s.queue().DeleteNominatedPodIfExists(bound)
		s.queue().Done(pod.UID)
		if err := s.scheduler.Cache.FinishBinding(logger, bound); err != nil {
			return err
		}
	}
	return s.cluster.store("Pod", bound)
}

// activate moves pods at once, as a plugin may ask for.
func (s *script) activate(keys []string) error {
	pods := map[string]*core.Pod{}
	for _, key := range keys {
		pod, err := s.cluster.pod(key)
		if err != nil {
			return err
		}
		pods[keyOf(pod)] = pod
	}
	s.queue().Activate(klog.FromContext(s.ctx), pods)
	return nil
}

// actions are the names of what may happen to an object.
var actions = map[string]fwk.ActionType{
	"Add": fwk.Add, "Delete": fwk.Delete, "Update": fwk.Update, "All": fwk.All,
	"UpdateNodeAllocatable": fwk.UpdateNodeAllocatable, "UpdateNodeLabel": fwk.UpdateNodeLabel,
	"UpdateNodeTaint": fwk.UpdateNodeTaint, "UpdateNodeCondition": fwk.UpdateNodeCondition,
	"UpdateNodeAnnotation": fwk.UpdateNodeAnnotation, "UpdatePodLabel": fwk.UpdatePodLabel,
	"UpdatePodScaleDown": fwk.UpdatePodScaleDown, "UpdatePodToleration": fwk.UpdatePodToleration,
	"UpdatePodSchedulingGatesEliminated": fwk.UpdatePodSchedulingGatesEliminated,
}

// move tells the queue of an event without changing the cluster. The hints of plugins read the
// objects of an event, so only the event that stands for all may come without any.
func (s *script) move(event *moveStep) error {
	action, known := actions[event.Action]
	if !known {
		return fmt.Errorf("move: the oracle knows no action %q", event.Action)
	}
	if len(event.Old)+len(event.New) == 0 && event.Resource != string(fwk.WildCard) {
		return fmt.Errorf("move: an event of %s needs an old or a new object", event.Resource)
	}
	var objects [2]any
	for i, raw := range []json.RawMessage{event.Old, event.New} {
		if len(raw) == 0 {
			continue
		}
		kind, object, err := s.cluster.decode(raw)
		if err != nil {
			return fmt.Errorf("move: %w", err)
		}
		// Some resources carry their group: storage.k8s.io/StorageClass.
		if kind != path.Base(event.Resource) {
			return fmt.Errorf("move: an event of %s cannot have a %s", event.Resource, kind)
		}
		legacyscheme.Scheme.Default(object)
		objects[i] = object
	}
	happened := fwk.ClusterEvent{Resource: fwk.EventResource(event.Resource), ActionType: action}
	s.queue().MoveAllToActiveOrBackoffQueue(klog.FromContext(s.ctx), happened, objects[0], objects[1], nil)
	return nil
}

// look is where every pod stands.
func (s *script) look() *queueAnswer {
	q := s.queue()
	answer := &queueAnswer{
		Now:    s.clock.Now().UTC().Format(time.RFC3339Nano),
		Active: []string{}, Backoff: []waitingPod{}, Unschedulable: []waitingPod{}, Gated: []waitingPod{},
		InFlight: []string{}, Nominated: map[string][]string{},
	}
	active := s.infos(q.PodsInActiveQ())
	for _, profile := range s.scheduler.Profiles {
		less := profile.QueueSortFunc()
		slices.SortFunc(active, func(a, b *framework.QueuedPodInfo) int {
			switch {
			case less(a, b):
				return -1
			case less(b, a):
				return 1
			default:
				return strings.Compare(keyOf(a.Pod), keyOf(b.Pod))
			}
		})
		break
	}
	for _, info := range active {
		answer.Active = append(answer.Active, keyOf(info.Pod))
	}
	for _, info := range s.infos(q.PodsInBackoffQ()) {
		pod := describe(info)
		pod.Error = failedByError(info)
		answer.Backoff = append(answer.Backoff, pod)
	}
	for _, info := range s.infos(q.UnschedulablePods()) {
		if info.Gated() {
			answer.Gated = append(answer.Gated, describe(info))
		} else {
			answer.Unschedulable = append(answer.Unschedulable, describe(info))
		}
	}
	for _, pod := range q.InFlightPods() {
		answer.InFlight = append(answer.InFlight, keyOf(pod))
	}
	slices.Sort(answer.InFlight)
	for _, key := range s.cluster.informers["Node"].indexer.ListKeys() {
		for _, info := range q.NominatedPodsForNode(key) {
			answer.Nominated[key] = append(answer.Nominated[key], keyOf(info.GetPod()))
		}
		slices.Sort(answer.Nominated[key])
	}
	return answer
}

// infos are what the queue knows of the pods, by name.
func (s *script) infos(pods []*core.Pod) []*framework.QueuedPodInfo {
	infos := make([]*framework.QueuedPodInfo, 0, len(pods))
	for _, pod := range pods {
		if info, ok := s.queue().GetPod(pod.Name, pod.Namespace); ok {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b *framework.QueuedPodInfo) int {
		return strings.Compare(keyOf(a.Pod), keyOf(b.Pod))
	})
	return infos
}

func describe(info *framework.QueuedPodInfo) waitingPod {
	pod := waitingPod{
		Pod: keyOf(info.Pod), Attempts: info.Attempts, GatedBy: info.GatingPlugin,
		Unschedulable: sets.List(info.UnschedulablePlugins), Pending: sets.List(info.PendingPlugins),
	}
	if !info.BackoffExpiration.IsZero() {
		pod.Until = info.BackoffExpiration.UTC().Format(time.RFC3339Nano)
	}
	return pod
}
