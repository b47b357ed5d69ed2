package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	fakeclock "k8s.io/utils/clock/testing"
)

// script is one request under way: a cluster, the scheduler that watches it, and its clock.
type script struct {
	ctx       context.Context
	cancel    context.CancelFunc
	cluster   *cluster
	scheduler *scheduler.Scheduler
	snapshot  *schedulercache.Snapshot
	clock     *fakeclock.FakeClock
	started   time.Time
	inFlight  map[string]*framework.QueuedPodInfo
	witnesses map[string]*witness
}

// unreachable is a transport for a client that nothing may use: the oracle decides and writes
// nothing.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("the oracle has no API server")
}

var client = kubernetes.NewForConfigOrDie(&rest.Config{
	Host: "http://oracle.invalid",
	// No waiting for a turn: a call fails at once.
	QPS:           -1,
	WrapTransport: func(http.RoundTripper) http.RoundTripper { return unreachable{} },
})

// silence is a recorder of events that keeps none.
type silence struct{}

func (silence) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

func newScript(raw json.RawMessage, start time.Time) (*script, error) {
	configuration, err := readConfiguration(raw)
	if err != nil {
		return nil, err
	}
	fixed := int32(100)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Background()))
	s := &script{
		ctx: ctx, cancel: cancel, cluster: newCluster(), started: start,
		clock: fakeclock.NewFakeClock(start), inFlight: map[string]*framework.QueuedPodInfo{},
		witnesses: map[string]*witness{},
	}
	s.scheduler, err = scheduler.New(ctx, client, s.cluster.factory(client), nil,
		func(string) events.EventRecorder { return silence{} },
		scheduler.WithComponentConfigVersion(configuration.APIVersion),
		scheduler.WithProfiles(configuration.Profiles...),
		scheduler.WithPercentageOfNodesToScore(&fixed),
		scheduler.WithParallelism(1),
		scheduler.WithPodInitialBackoffSeconds(configuration.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(configuration.PodMaxBackoffSeconds),
		scheduler.WithClock(s.clock),
	)
	if err != nil {
		cancel()
		return nil, err
	}
	// All profiles share the snapshot that the scheduler works on.
	for name, profile := range s.scheduler.Profiles {
		s.witnesses[name] = watchPreemption(profile)
		s.snapshot = profile.SnapshotSharedLister().(*schedulercache.Snapshot)
	}
	return s, nil
}

// readConfiguration is what the real program does with its file, with the settings of the oracle on
// top: every node is tried and scored, and every candidate for preemption is tried.
func readConfiguration(raw json.RawMessage) (*config.KubeSchedulerConfiguration, error) {
	var configuration *config.KubeSchedulerConfiguration
	if len(raw) == 0 || string(raw) == "null" {
		standard, err := latest.Default()
		if err != nil {
			return nil, err
		}
		configuration = standard
	} else {
		text := []byte(raw)
		var yaml string
		if json.Unmarshal(raw, &yaml) == nil {
			text = []byte(yaml)
		}
		object, kind, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		read, ok := object.(*config.KubeSchedulerConfiguration)
		if !ok {
			return nil, fmt.Errorf("config: %s is not a KubeSchedulerConfiguration", kind)
		}
		read.APIVersion = kind.GroupVersion().String()
		configuration = read
	}
	if err := validation.ValidateKubeSchedulerConfiguration(configuration); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if len(configuration.Extenders) > 0 {
		return nil, errors.New("config: the oracle asks no extenders")
	}
	for p := range configuration.Profiles {
		configuration.Profiles[p].PercentageOfNodesToScore = nil
		for _, plugin := range configuration.Profiles[p].PluginConfig {
			if plugin.Name == names.DefaultPreemption {
				plugin.Args.(*config.DefaultPreemptionArgs).MinCandidateNodesPercentage = 100
			}
		}
	}
	return configuration, nil
}

// plugins is what runs at each extension point of each profile, in its order.
func (s *script) plugins() map[string]map[string][]pluginAnswer {
	answer := map[string]map[string][]pluginAnswer{}
	for name, profile := range s.scheduler.Profiles {
		running := profile.ListPlugins()
		points := map[string][]pluginAnswer{}
		for point, set := range map[string]config.PluginSet{
			"preEnqueue": running.PreEnqueue, "queueSort": running.QueueSort,
			"preFilter": running.PreFilter, "filter": running.Filter, "postFilter": running.PostFilter,
			"preScore": running.PreScore, "score": running.Score, "reserve": running.Reserve,
			"permit": running.Permit, "preBind": running.PreBind, "bind": running.Bind,
			"postBind": running.PostBind,
		} {
			for _, plugin := range set.Enabled {
				points[point] = append(points[point], pluginAnswer{Name: plugin.Name, Weight: plugin.Weight})
			}
		}
		answer[name] = points
	}
	return answer
}

// close ends what the scheduler started.
func (s *script) close() {
	s.cancel()
	s.scheduler.SchedulingQueue.Close()
}

// profile is the profile that the pod asks for.
func (s *script) profile(pod *core.Pod) (framework.Framework, error) {
	profile, ok := s.scheduler.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("pod %s: no profile is named %q", keyOf(pod), pod.Spec.SchedulerName)
	}
	return profile, nil
}
