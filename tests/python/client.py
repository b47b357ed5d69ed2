"""What a client written in Python sees of a server: lists, watches, patches, custom objects.

Run with a kubeconfig in KUBECONFIG and a namespace as argument. Prints a line for each thing it
saw. What no two servers share (revisions, uids, times) is not printed, so that the lines of two
servers can be compared.
"""

import sys

import yaml
from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

# How long a watch may last, in seconds: it ends sooner, when it has told what it should.
PATIENCE = 20

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crates.python.gantry.test}
spec:
  group: python.gantry.test
  scope: Namespaced
  names: {plural: crates, singular: crate, kind: Crate, listKind: CrateList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {size: {type: integer, minimum: 1}, label: {type: string, default: none}}
          status:
            type: object
            properties: {phase: {type: string}}
"""


def say(*words):
    print(*words)


def refused(what, call):
    """Says with what code and reason a call is refused."""
    try:
        call()
        say(what, "is not refused")
    except ApiException as error:
        body = yaml.safe_load(error.body) if error.body else {}
        say(what, "is refused:", error.status, body.get("reason"), body.get("message"))


def config_map(name, **data):
    return client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=name, labels={"of": "python"}), data=data
    )


def create_and_delete(core, namespace):
    made = core.create_namespaced_config_map(namespace, config_map("a", color="red"))
    say("created", made.metadata.name, made.data, bool(made.metadata.uid))
    refused("a second", lambda: core.create_namespaced_config_map(namespace, config_map("a")))
    refused("a bad name", lambda: core.create_namespaced_config_map(namespace, config_map("A_")))
    made.data = {"color": "blue"}
    replaced = core.replace_namespaced_config_map("a", namespace, made)
    say("replaced", replaced.data)
    refused("a stale one", lambda: core.replace_namespaced_config_map("a", namespace, made))
    status = core.delete_namespaced_config_map("a", namespace)
    say("deleted", status.status, status.details.name, status.details.kind)
    refused("what is gone", lambda: core.read_namespaced_config_map("a", namespace))


def lists(core, namespace):
    for number in range(5):
        core.create_namespaced_config_map(namespace, config_map(f"page-{number}"))
    token = None
    while True:
        page = core.list_namespaced_config_map(
            namespace, limit=2, _continue=token, label_selector="of=python"
        )
        names = [item.metadata.name for item in page.items]
        say("page", names, "remaining", page.metadata.remaining_item_count)
        token = page.metadata._continue
        if not token:
            break
    unselected = core.list_namespaced_config_map(namespace, limit=2)
    say("remaining without a selector", unselected.metadata.remaining_item_count)
    by_field = core.list_namespaced_config_map(namespace, field_selector="metadata.name=page-3")
    say("by field", [item.metadata.name for item in by_field.items])
    refused(
        "a broken token",
        lambda: core.list_namespaced_config_map(namespace, limit=2, _continue="nonsense"),
    )


def told(list_call, namespace, count, **options):
    """The first events of a watch."""
    events = []
    stream = watch.Watch()
    for event in stream.stream(list_call, namespace, timeout_seconds=PATIENCE, **options):
        events.append((event["type"], event["object"]))
        if len(events) == count:
            stream.stop()
    return events


def watches(core, namespace):
    core.delete_collection_namespaced_config_map(namespace, label_selector="of=python")
    listed = core.list_namespaced_config_map(namespace, label_selector="of=python")
    say("after deletion of the collection", len(listed.items))
    start = listed.metadata.resource_version
    core.create_namespaced_config_map(namespace, config_map("w", color="red"))
    core.patch_namespaced_config_map("w", namespace, {"data": {"color": "blue"}})
    core.delete_namespaced_config_map("w", namespace)
    call = core.list_namespaced_config_map
    life = told(call, namespace, 3, resource_version=start, label_selector="of=python")
    for kind, item in life:
        say("watched", kind, item.metadata.name, item.data)
    resumed_at = life[0][1].metadata.resource_version
    rest = told(call, namespace, 2, resource_version=resumed_at, label_selector="of=python")
    say("resumed", [kind for kind, _ in rest])
    same = [item.metadata.resource_version for _, item in rest] == [
        item.metadata.resource_version for _, item in life[1:]
    ]
    say("the same events again:", same)
    try:
        told(call, namespace, 1, resource_version="1")
        say("a revision from long ago is watched")
    except ApiException as error:
        say("a revision from long ago:", error.status, error.reason.split(":")[0])
    # Without a revision it starts from what is there.
    core.create_namespaced_config_map(namespace, config_map("x"))
    anew = told(call, namespace, 1, label_selector="of=python")
    say("anew", [(kind, item.metadata.name) for kind, item in anew])


def deployment():
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}),
        spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="example/web:1")]),
    )
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1DeploymentSpec(
            replicas=0,
            selector=client.V1LabelSelector(match_labels={"app": "web"}),
            template=template,
        ),
    )


def patches(apps, namespace):
    made = apps.create_namespaced_deployment(namespace, deployment())
    say("defaults", made.spec.strategy.type, made.spec.revision_history_limit)

    def patched(body, media_type):
        # A header of the whole client is how this client is told the dialect of a patch.
        speaker = client.ApiClient(header_name="Content-Type", header_value=media_type)
        answer = client.AppsV1Api(speaker).patch_namespaced_deployment("web", namespace, body)
        containers = answer.spec.template.spec.containers
        say(media_type, [(one.name, one.image) for one in containers], answer.metadata.labels)

    template = lambda containers: {"spec": {"template": {"spec": {"containers": containers}}}}
    more = [{"name": "side", "image": "example/side:1"}]
    patched(template(more), "application/strategic-merge-patch+json")
    other = [{"name": "main", "image": "example/web:2"}]
    patched(template(other), "application/merge-patch+json")
    operations = [
        {"op": "test", "path": "/spec/replicas", "value": 0},
        {"op": "add", "path": "/metadata/labels", "value": {"tier": "front"}},
    ]
    patched(operations, "application/json-patch+json")
    operations[0]["value"] = 7
    refused("a test that fails", lambda: patched(operations, "application/json-patch+json"))
    scale = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 2}})
    say("scaled", scale.spec.replicas, scale.status.selector)


def custom_objects(api, namespace):
    kind = ("python.gantry.test", "v1", namespace, "crates")
    crate = lambda name, size: {
        "apiVersion": "python.gantry.test/v1",
        "kind": "Crate",
        "metadata": {"name": name},
        "spec": {"size": size, "unknown": True},
    }
    made = api.create_namespaced_custom_object(*kind, crate("a", 1))
    say("custom", made["kind"], made["spec"], made["metadata"]["generation"])
    refused("a wrong size", lambda: api.create_namespaced_custom_object(*kind, crate("b", 0)))
    grown = api.patch_namespaced_custom_object(*kind, "a", {"spec": {"size": 2}})
    say("grown", grown["spec"], grown["metadata"]["generation"])
    status = api.patch_namespaced_custom_object_status(*kind, "a", {"status": {"phase": "Full"}})
    say("status", status["status"], status["metadata"]["generation"])
    listed = api.list_namespaced_custom_object(*kind)
    say("listed", listed["kind"], [item["metadata"]["name"] for item in listed["items"]])
    start = made["metadata"]["resourceVersion"]
    events = watch.Watch().stream(
        api.list_namespaced_custom_object, *kind, resource_version=start, timeout_seconds=PATIENCE
    )
    event = next(events)
    say("watched", event["type"], event["object"]["spec"])
    gone = api.delete_namespaced_custom_object(*kind, "a")
    say("deleted", gone["status"], gone["details"]["name"])
    refused("what is gone", lambda: api.get_namespaced_custom_object(*kind, "a"))


def define(extensions):
    """Makes the custom kind and waits until it is established."""
    body = yaml.safe_load(DEFINITION)
    try:
        extensions.create_custom_resource_definition(body)
    except ApiException as error:
        if error.status != 409:
            raise
    stream = watch.Watch()
    events = stream.stream(
        extensions.list_custom_resource_definition,
        field_selector="metadata.name=" + body["metadata"]["name"],
        timeout_seconds=PATIENCE,
    )
    for event in events:
        conditions = event["object"].status.conditions or []
        if any(one.type == "Established" and one.status == "True" for one in conditions):
            stream.stop()


def main():
    namespace = sys.argv[1]
    config.load_kube_config()
    version = client.VersionApi().get_code()
    say("version", version.major, version.minor)
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    create_and_delete(core, namespace)
    lists(core, namespace)
    watches(core, namespace)
    patches(apps, namespace)
    define(client.ApiextensionsV1Api())
    custom_objects(client.CustomObjectsApi(), namespace)


main()
