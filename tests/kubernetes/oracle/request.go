package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// maxAdvance bounds one step of the clock: a day of back-off looks is a moment's work.
const maxAdvance = 24 * time.Hour

type request struct {
	ID      json.RawMessage   `json:"id,omitempty"`
	Config  json.RawMessage   `json:"config,omitempty"`
	Time    *time.Time        `json:"time,omitempty"`
	Objects []json.RawMessage `json:"objects,omitempty"`
	Queue   bool              `json:"queue,omitempty"`
	Plugins bool              `json:"plugins,omitempty"`
	Steps   []step            `json:"steps,omitempty"`
}

type step struct {
	Upsert   json.RawMessage `json:"upsert,omitempty"`
	Delete   *deleteStep     `json:"delete,omitempty"`
	Probe    *probeQuestion  `json:"probe,omitempty"`
	Pop      *struct{}       `json:"pop,omitempty"`
	Attempt  *attemptStep    `json:"attempt,omitempty"`
	Reject   *rejectStep     `json:"reject,omitempty"`
	Done     string          `json:"done,omitempty"`
	Bind     *bindStep       `json:"bind,omitempty"`
	Activate []string        `json:"activate,omitempty"`
	Move     *moveStep       `json:"move,omitempty"`
	Advance  string          `json:"advance,omitempty"`
}

type deleteStep struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

type probeQuestion struct {
	Pod          json.RawMessage `json:"pod"`
	NoPreemption bool            `json:"noPreemption,omitempty"`
}

type attemptStep struct {
	Node     string  `json:"node,omitempty"`
	Nominate *string `json:"nominate,omitempty"`
}

type rejectStep struct {
	Pod           string   `json:"pod"`
	Unschedulable []string `json:"unschedulable,omitempty"`
	Pending       []string `json:"pending,omitempty"`
	Nominate      *string  `json:"nominate,omitempty"`
}

type bindStep struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
}

type moveStep struct {
	Resource string          `json:"resource"`
	Action   string          `json:"action"`
	Old      json.RawMessage `json:"old,omitempty"`
	New      json.RawMessage `json:"new,omitempty"`
}

type response struct {
	ID      json.RawMessage                      `json:"id,omitempty"`
	Start   *queueAnswer                         `json:"start,omitempty"`
	Plugins map[string]map[string][]pluginAnswer `json:"plugins,omitempty"`
	Steps   []stepAnswer                         `json:"steps,omitempty"`
	Error   string                               `json:"error,omitempty"`
}

type pluginAnswer struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight,omitempty"`
}

type stepAnswer struct {
	Probe  *probeAnswer `json:"probe,omitempty"`
	Popped *string      `json:"popped,omitempty"`
	Queue  *queueAnswer `json:"queue,omitempty"`
}

type probeAnswer struct {
	Pod                  string                       `json:"pod"`
	Skipped              string                       `json:"skipped,omitempty"`
	Gated                *statusAnswer                `json:"gated,omitempty"`
	PreFilter            *statusAnswer                `json:"preFilter,omitempty"`
	PreFilterNodes       []string                     `json:"preFilterNodes,omitzero"`
	PreFilterPlugins     []string                     `json:"preFilterPlugins,omitempty"`
	Nodes                map[string]statusAnswer      `json:"nodes,omitzero"`
	Feasible             []string                     `json:"feasible,omitzero"`
	Scores               map[string]map[string]int64  `json:"scores,omitempty"`
	Totals               map[string]int64             `json:"totals,omitempty"`
	Volumes              map[string]map[string]string `json:"volumes,omitempty"`
	Choice               []string                     `json:"choice,omitzero"`
	UnschedulablePlugins []string                     `json:"unschedulablePlugins,omitzero"`
	PendingPlugins       []string                     `json:"pendingPlugins,omitzero"`
	Preemption           *preemptionAnswer            `json:"preemption,omitempty"`
	Message              string                       `json:"message,omitempty"`
	Error                string                       `json:"error,omitempty"`
}

type statusAnswer struct {
	Plugin  string   `json:"plugin,omitempty"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

func answerStatus(status *fwk.Status) *statusAnswer {
	answer := &statusAnswer{Plugin: status.Plugin(), Code: status.Code().String(), Reasons: append([]string{}, status.Reasons()...)}
	if answer.Plugin == names.NodeResourcesFit {
		// Other resources than these come in the order of a Go map: here they come by name.
		slices.SortStableFunc(answer.Reasons, func(a, b string) int {
			if order := cmp.Compare(fixedReason(a), fixedReason(b)); order != 0 {
				return order
			}
			return strings.Compare(a, b)
		})
	}
	return answer
}

// fixedReason is the place of a reason among those that NodeResourcesFit gives in a fixed order.
func fixedReason(reason string) int {
	fixed := []string{"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"}
	if place := slices.Index(fixed, reason); place >= 0 {
		return place
	}
	return len(fixed)
}

func (s *statusAnswer) equal(other *statusAnswer) bool {
	return s.Plugin == other.Plugin && s.Code == other.Code && slices.Equal(s.Reasons, other.Reasons)
}

type preemptionAnswer struct {
	Code       string                     `json:"code"`
	Reached    bool                       `json:"reached"`
	Eligible   bool                       `json:"eligible"`
	Reason     string                     `json:"reason,omitempty"`
	Candidates map[string]candidateAnswer `json:"candidates"`
	Refused    map[string]statusAnswer    `json:"refused"`
	Chosen     []string                   `json:"chosen"`
}

type candidateAnswer struct {
	Victims    []string `json:"victims"`
	Violations int64    `json:"violations"`
}

type queueAnswer struct {
	Now           string              `json:"now"`
	Active        []string            `json:"active"`
	Backoff       []waitingPod        `json:"backoff"`
	Unschedulable []waitingPod        `json:"unschedulable"`
	Gated         []waitingPod        `json:"gated"`
	InFlight      []string            `json:"inFlight"`
	Nominated     map[string][]string `json:"nominated"`
}

type waitingPod struct {
	Pod           string   `json:"pod"`
	Until         string   `json:"until,omitempty"`
	Error         bool     `json:"error,omitempty"`
	Attempts      int      `json:"attempts"`
	GatedBy       string   `json:"gatedBy,omitempty"`
	Unschedulable []string `json:"unschedulable,omitempty"`
	Pending       []string `json:"pending,omitempty"`
}

// play does one step of a script.
func (s *script) play(step *step) (stepAnswer, error) {
	var answer stepAnswer
	var err error
	switch {
	case step.Upsert != nil:
		err = s.cluster.upsert(step.Upsert)
	case step.Delete != nil:
		err = s.cluster.remove(step.Delete.Kind, step.Delete.Namespace, step.Delete.Name)
	case step.Probe != nil:
		answer.Probe, err = s.probe(step.Probe)
	case step.Pop != nil:
		var popped string
		popped, err = s.pop()
		answer.Popped = &popped
	case step.Attempt != nil:
		answer, err = s.attempt(step.Attempt)
	case step.Reject != nil:
		err = s.reject(step.Reject)
	case step.Done != "":
		info, missing := s.take(step.Done)
		if err = missing; err == nil {
			s.queue().Done(info.Pod.UID)
		}
	case step.Bind != nil:
		err = s.bind(step.Bind)
	case step.Activate != nil:
		err = s.activate(step.Activate)
	case step.Move != nil:
		err = s.move(step.Move)
	case step.Advance != "":
		by, unreadable := time.ParseDuration(step.Advance)
		if err = unreadable; err == nil {
			err = s.advance(by)
		}
	default:
		err = errors.New("a step says nothing that the oracle knows")
	}
	return answer, err
}

// answer plays the whole script of a request.
func answer(request *request) (answer response) {
	answer.ID = request.ID
	defer func() {
		if panicked := recover(); panicked != nil {
			answer.Error = fmt.Sprintf("the scheduler panicked: %v", panicked)
		}
	}()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if request.Time != nil {
		start = *request.Time
	}
	script, err := newScript(request.Config, start)
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	defer script.close()
	for i, object := range request.Objects {
		if err := script.cluster.upsert(object); err != nil {
			answer.Error = fmt.Sprintf("object %d: %v", i, err)
			return answer
		}
	}
	if request.Queue {
		answer.Start = script.look()
	}
	if request.Plugins {
		answer.Plugins = script.plugins()
	}
	for i := range request.Steps {
		done, err := script.play(&request.Steps[i])
		if err != nil {
			answer.Error = fmt.Sprintf("step %d: %v", i, err)
			return answer
		}
		if request.Queue {
			done.Queue = script.look()
		}
		answer.Steps = append(answer.Steps, done)
	}
	return answer
}
