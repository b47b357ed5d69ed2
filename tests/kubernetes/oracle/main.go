// Program oracle says what kube-scheduler would do. It links Kubernetes' own scheduler, with its
// framework, all plugins, cache, queue and preemption, feeds it the objects of a request by hand,
// and prints what it decides and why. One process answers any number of requests: a line of JSON
// on the standard input is a request, the line of JSON printed for it is the answer.
//
// A request is a cluster and a script:
//
//	id       anything; the answer carries the same
//	config   a KubeSchedulerConfiguration v1: an object, or a text of YAML; the default when absent
//	time     when the script begins (2026-01-01T00:00:00Z when absent); only steps move the clock
//	objects  API objects, or Lists of them, stored in this order before the first step
//	queue    true to have the queue in the answer: at the start and after every step
//	plugins  true to have in the answer what runs in each profile
//	steps    what happens then; each is an object with one of the fields below
//
// Steps on the cluster:
//
//	upsert   an object or a List: added, or put in the place of the one of that name
//	delete   {kind, namespace, name}
//	bind     {pod, node}: the pod comes back bound; where it was popped, it is assumed first
//
// The question:
//
//	probe    {pod, noPreemption}: what would the scheduler do with the pod now? The pod is the
//	         "namespace/name" of a pending one, or a whole object that is there for the question
//	         only. It changes nothing. noPreemption leaves out the last part of the answer.
//
// Steps on the queue:
//
//	pop      {}: takes the next pod; the answer has popped: its name, or "" where nothing is ready
//	attempt  {node, nominate}: a whole attempt but for preemption: pop, probe (the answer has both),
//	         then bind to the node where the pod fits, or reject as the probe says where it does
//	         not fit; it is an error if it fits, but not this node
//	reject   {pod, unschedulable, pending, nominate}: the popped pod got no node; the two lists
//	         name the plugins that refused it, both empty means that the attempt failed by an
//	         error; nominate sets ("" clears) the nominated node
//	done     "namespace/name": the popped pod is not waited for any more
//	activate ["namespace/name"]: a plugin asks to try these pods at once
//	move     {resource, action, old, new}: an event that changes nothing, such as Node and Add with
//	         the new node; resource * and action All need no object
//	advance  a duration such as "1500ms": moves the clock; what is due meanwhile happens
//
// The cluster plays the API server as far as the scheduler relies on it: the defaults of the API
// are filled in, so are missing uids and namespaces, revisions grow, the priority is taken from
// the class, and pods that ended are gone. A field that the API does not have is an error.
//
// The answer has id, start (the queue, when asked for), plugins (when asked for: of each profile, of
// each extension point the plugins in their order, with the weights of those that score), steps (one
// entry per step, in order) and, where something could not be done, error; the steps before it are
// answered. The entry of a step has queue when asked for, popped after a pop, and after a probe the
// field probe:
//
//	pod                   its "namespace/name"
//	skipped               the scheduler leaves this pod alone, and why; nothing else is there then
//	gated                 the status of the PreEnqueue plugin that holds it; nothing else then
//	preFilter             the status with which PreFilter refused the pod, if it did
//	preFilterNodes        the nodes that PreFilter left, if it left a part; preFilterPlugins did so
//	nodes                 of each refused node the status: plugin (absent where PreFilter left the
//	                      node out), code, reasons in upstream's order; where upstream has none
//	                      (two and more extended resources that are short), by name
//	feasible              the nodes that take the pod, by name
//	scores                of each score plugin that had a say, of each feasible node: the
//	                      normalised score times the weight of the plugin
//	totals                of each feasible node the sum of those
//	volumes               of each feasible node, of each claim that is not bound: the volume that it
//	                      would get there, or "" where one would be provisioned
//	choice                the nodes that upstream may take: those of the highest total, or the one
//	                      that the pod is nominated to where that is feasible
//	unschedulablePlugins  who refused, as the queue remembers it; pendingPlugins likewise
//	preemption            what PostFilter found where no node was feasible (see below)
//	message               upstream's text for the event and the condition
//	error                 a plugin failed; upstream would try again
//
// Preemption has code (of PostFilter as a whole: Success means that a node was nominated), reached
// (false where an earlier PostFilter plugin ended the chain), eligible and reason (may the pod
// preempt), candidates (of each node the victims in upstream's order and the number of violations
// of disruption budgets), refused (of each node tried in vain the status) and chosen: the picked
// node and all others that are equal to it in every criterion; none where nothing was picked.
//
// The queue has now, active (in the order of popping), backoff (until when, and error where it
// waits for an error), unschedulable, gated (gatedBy), inFlight (popped and not answered for) and
// nominated (of each node the pods); pods carry attempts and the plugins that refused them.
//
// The settings are those that leave nothing to chance: OpportunisticBatching off, parallelism 1,
// all nodes scored, all candidates for preemption tried from the first. Extenders are refused.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

func main() {
	gates := flag.String("feature-gates", "", "feature gates that differ from the defaults, such as A=true,B=false")
	verbose := flag.Bool("verbose", false, "let the scheduler log to the standard error")
	flag.Parse()
	// Requests are large and short-lived, so memory is traded for time.
	debug.SetGCPercent(400)
	if !*verbose {
		klog.SetLogger(logr.Discard())
	}
	// Batching reuses results between pods, so one answer would depend on the one before.
	for _, setting := range []string{"OpportunisticBatching=false", *gates} {
		if err := feature.DefaultMutableFeatureGate.Set(setting); err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			os.Exit(2)
		}
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// serve answers one line with one line until the input ends.
func serve(input io.Reader, output io.Writer) error {
	reader := bufio.NewReaderSize(input, 1<<20)
	writer := bufio.NewWriterSize(output, 1<<20)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		line, err := reader.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := encoder.Encode(read(line)); err != nil {
				return err
			}
			if err := writer.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func read(line []byte) response {
	var asked request
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return response{Error: fmt.Sprintf("the request is not understood: %v", err)}
	}
	return answer(&asked)
}
