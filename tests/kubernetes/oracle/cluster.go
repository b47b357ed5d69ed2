package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	resource "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	systempriority "k8s.io/kubernetes/pkg/apis/scheduling"
	strictjson "sigs.k8s.io/json"

	// Their defaults are what an API server fills in.
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// kinds are the objects that a request may hold, each with an empty one of its type.
var kinds = map[schemaKind]runtime.Object{
	{"v1", "Namespace"}:                         &core.Namespace{},
	{"v1", "Node"}:                              &core.Node{},
	{"v1", "PersistentVolume"}:                  &core.PersistentVolume{},
	{"v1", "PersistentVolumeClaim"}:             &core.PersistentVolumeClaim{},
	{"v1", "Pod"}:                               &core.Pod{},
	{"v1", "ReplicationController"}:             &core.ReplicationController{},
	{"v1", "Service"}:                           &core.Service{},
	{"apps/v1", "ReplicaSet"}:                   &apps.ReplicaSet{},
	{"apps/v1", "StatefulSet"}:                  &apps.StatefulSet{},
	{"policy/v1", "PodDisruptionBudget"}:        &policy.PodDisruptionBudget{},
	{"resource.k8s.io/v1", "DeviceClass"}:       &resource.DeviceClass{},
	{"resource.k8s.io/v1", "ResourceClaim"}:     &resource.ResourceClaim{},
	{"resource.k8s.io/v1", "ResourceSlice"}:     &resource.ResourceSlice{},
	{"scheduling.k8s.io/v1", "PriorityClass"}:   &scheduling.PriorityClass{},
	{"storage.k8s.io/v1", "CSIDriver"}:          &storage.CSIDriver{},
	{"storage.k8s.io/v1", "CSINode"}:            &storage.CSINode{},
	{"storage.k8s.io/v1", "CSIStorageCapacity"}: &storage.CSIStorageCapacity{},
	{"storage.k8s.io/v1", "StorageClass"}:       &storage.StorageClass{},
	{"storage.k8s.io/v1", "VolumeAttachment"}:   &storage.VolumeAttachment{},
}

// clusterScoped are the kinds whose objects have no namespace.
var clusterScoped = map[string]bool{
	"CSIDriver": true, "CSINode": true, "DeviceClass": true, "Namespace": true, "Node": true,
	"PersistentVolume": true, "PriorityClass": true, "ResourceSlice": true, "StorageClass": true,
	"VolumeAttachment": true,
}

type schemaKind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// cluster holds the objects of one request in informers and plays the part of the API server that
// a scheduler relies on: defaults, unique ids, growing revisions, priorities from their classes.
type cluster struct {
	informers map[string]*informer
	revision  int64
}

func newCluster() *cluster {
	c := &cluster{informers: map[string]*informer{}}
	for kind := range kinds {
		c.informers[kind.Kind] = newInformer()
	}
	return c
}

// factory hands the informers to whoever asks for one by type. The factory keeps the first
// informer it is given for a type, so the real ones are never made.
func (c *cluster) factory(client kubernetes.Interface) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactory(client, 0)
	for kind, empty := range kinds {
		own := c.informers[kind.Kind]
		factory.InformerFor(empty, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return own })
	}
	return factory
}

// decode reads an object; a field that its type does not have is an error, because the scheduler
// under test would see it and this one would not.
func (c *cluster) decode(raw json.RawMessage) (string, runtime.Object, error) {
	var kind schemaKind
	if err := json.Unmarshal(raw, &kind); err != nil {
		return "", nil, fmt.Errorf("an object is not understood: %w", err)
	}
	return decodeAs(kind, raw)
}

func decodeAs(kind schemaKind, raw json.RawMessage) (string, runtime.Object, error) {
	empty, known := kinds[kind]
	if !known {
		return "", nil, fmt.Errorf("the oracle has no kind %q of %q", kind.Kind, kind.APIVersion)
	}
	object := reflect.New(reflect.TypeOf(empty).Elem()).Interface().(runtime.Object)
	strict, err := strictjson.UnmarshalStrict(raw, object)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", kind.Kind, err)
	}
	if len(strict) > 0 {
		return "", nil, fmt.Errorf("%s %s: %w", kind.Kind, object.(meta.Object).GetName(), strict[0])
	}
	if object.(meta.Object).GetName() == "" {
		return "", nil, fmt.Errorf("a %s has no name", kind.Kind)
	}
	return kind.Kind, object, nil
}

// upsert stores what raw says: one object, or a List of them.
func (c *cluster) upsert(raw json.RawMessage) error {
	var seen struct {
		schemaKind
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &seen); err != nil {
		return fmt.Errorf("an object is not understood: %w", err)
	}
	if seen.Kind == "List" {
		for _, item := range seen.Items {
			if err := c.upsert(item); err != nil {
				return err
			}
		}
		return nil
	}
	kind, object, err := decodeAs(seen.schemaKind, raw)
	if err != nil {
		return err
	}
	return c.store(kind, object)
}

func (c *cluster) store(kind string, object runtime.Object) error {
	legacyscheme.Scheme.Default(object)
	named := object.(meta.Object)
	if clusterScoped[kind] {
		named.SetNamespace("")
	} else if named.GetNamespace() == "" {
		named.SetNamespace(core.NamespaceDefault)
	}
	key := keyOf(named)
	old, exists, err := c.informers[kind].indexer.GetByKey(key)
	if err != nil {
		return err
	}
	if named.GetUID() == "" && exists {
		named.SetUID(old.(meta.Object).GetUID())
	} else if named.GetUID() == "" {
		named.SetUID(types.UID(kind + ":" + key))
	} else if exists && old.(meta.Object).GetUID() != named.GetUID() {
		// Another object of the same name: the first one has gone in between.
		if _, err := c.informers[kind].remove(key); err != nil {
			return err
		}
		exists = false
	}
	c.revision++
	named.SetResourceVersion(strconv.FormatInt(c.revision, 10))
	if pod, ok := object.(*core.Pod); ok {
		if err := c.resolvePriority(pod); err != nil {
			return err
		}
		// No API server lets a pod move, and the scheduler ends the process when it sees one.
		if exists && old.(*core.Pod).Spec.NodeName != "" && old.(*core.Pod).Spec.NodeName != pod.Spec.NodeName {
			return fmt.Errorf("pod %s is bound to %s and cannot move", key, old.(*core.Pod).Spec.NodeName)
		}
		// The scheduler's own informer selects by phase: a pod that ended is gone for it.
		if pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed {
			_, err := c.informers[kind].remove(key)
			return err
		}
	}
	return c.informers[kind].put(object)
}

// resolvePriority does what admission does with the name of a priority class.
func (c *cluster) resolvePriority(pod *core.Pod) error {
	if pod.Spec.Priority != nil {
		return nil
	}
	name := pod.Spec.PriorityClassName
	var value int32
	lower := core.PreemptLowerPriority
	policy := &lower
	if name == "" {
		// A pod without a class gets the default class; of several, the one of the lowest value.
		found := false
		for _, object := range c.informers["PriorityClass"].indexer.List() {
			class := object.(*scheduling.PriorityClass)
			if class.GlobalDefault && (!found || class.Value < value) {
				found, value, policy, name = true, class.Value, class.PreemptionPolicy, class.Name
			}
		}
	} else {
		object, exists, err := c.informers["PriorityClass"].indexer.GetByKey(name)
		if err != nil {
			return err
		}
		switch {
		case exists:
			class := object.(*scheduling.PriorityClass)
			value, policy = class.Value, class.PreemptionPolicy
		case name == systempriority.SystemClusterCritical:
			value = systempriority.SystemCriticalPriority
		case name == systempriority.SystemNodeCritical:
			value = systempriority.SystemCriticalPriority + 1000
		default:
			return fmt.Errorf("pod %s: no PriorityClass with name %s was found", keyOf(pod), name)
		}
	}
	pod.Spec.PriorityClassName = name
	pod.Spec.Priority = &value
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = policy
	}
	return nil
}

// remove deletes an object.
func (c *cluster) remove(kind, namespace, name string) error {
	store, known := c.informers[kind]
	if !known {
		return fmt.Errorf("the oracle has no kind %q", kind)
	}
	key := name
	if !clusterScoped[kind] {
		if namespace == "" {
			namespace = core.NamespaceDefault
		}
		key = namespace + "/" + name
	}
	existed, err := store.remove(key)
	if err == nil && !existed {
		err = fmt.Errorf("there is no %s %s to delete", kind, key)
	}
	return err
}

// pod finds a pod by "namespace/name", or by name in the namespace "default".
func (c *cluster) pod(key string) (*core.Pod, error) {
	if !strings.Contains(key, "/") {
		key = core.NamespaceDefault + "/" + key
	}
	object, exists, err := c.informers["Pod"].indexer.GetByKey(key)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, fmt.Errorf("there is no pod %s", key)
	}
	return object.(*core.Pod), nil
}

// keyOf is "namespace/name", or the name alone.
func keyOf(object meta.Object) string {
	return cache.MetaObjectToName(object).String()
}
