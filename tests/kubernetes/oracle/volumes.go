package main

import (
	"reflect"
	"unsafe"

	core "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// volumesOf is what VolumeBinding would do on each feasible node: of each unbound claim the volume
// that it would get, or "" where one would be provisioned. The plugin keeps it in fields of its
// own for the steps that follow, so it is read past their privacy.
func volumesOf(state fwk.CycleState, feasible []fwk.NodeInfo) map[string]map[string]string {
	data, err := state.Read(names.VolumeBinding)
	if err != nil {
		return nil
	}
	kept := reflect.ValueOf(data).Elem().FieldByName("podVolumesByNode")
	byNode := map[string]*volumebinding.PodVolumes{}
	for entries := kept.MapRange(); entries.Next(); {
		byNode[entries.Key().String()] = (*volumebinding.PodVolumes)(entries.Value().UnsafePointer())
	}
	volumes := map[string]map[string]string{}
	for _, node := range feasible {
		name := node.Node().Name
		plan := byNode[name]
		if plan == nil || len(plan.StaticBindings)+len(plan.DynamicProvisions) == 0 {
			continue
		}
		volumes[name] = map[string]string{}
		for _, binding := range plan.StaticBindings {
			claim := (*core.PersistentVolumeClaim)(private(binding, "pvc"))
			volume := (*core.PersistentVolume)(private(binding, "pv"))
			volumes[name][claim.Name] = volume.Name
		}
		for _, provision := range plan.DynamicProvisions {
			volumes[name][provision.PVC.Name] = ""
		}
	}
	return volumes
}

// private is the pointer in a field that the type keeps to itself.
func private(holder any, field string) unsafe.Pointer {
	return reflect.ValueOf(holder).Elem().FieldByName(field).UnsafePointer()
}
