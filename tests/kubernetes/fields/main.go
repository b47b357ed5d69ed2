// Program fields prints, for every struct that the API server reads and writes,
// how each of its fields looks on the wire when it holds nothing: OpenAPI does
// not say it, and answers can only be compared whole when it is known.
//
// One line per struct: the OpenAPI name, a JSON object from field name to its looks, and,
// after a tab, a JSON object from the field's number in protobuf to its name and type.
// The looks are
//
//	"omit"   the field vanishes when it is empty (false, 0, "", no entries)
//	"nil"    the field vanishes only when it is absent: a given zero stays
//	"zero"   the field vanishes when it is the zero struct or time
//	"keep:Z" the field is always there; Z is what an empty one is written as
//
// and the types
//
//	s text, b flag, i whole number, d number, y bytes, q quantity, t time, u micro time,
//	x number or text, n duration, r raw JSON, m:NAME message; [T list, {T map by text;
//	a field without a name is a message whose fields stand in its place
package main

import (
	"bufio"
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var (
	jsonMarshaler = reflect.TypeOf((*json.Marshaler)(nil)).Elem()
	textMarshaler = reflect.TypeOf((*encoding.TextMarshaler)(nil)).Elem()
)

func main() {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme} {
		if err := add(all); err != nil {
			fmt.Fprintln(os.Stderr, "fields:", err)
			os.Exit(1)
		}
	}
	structs := map[string]structure{}
	for _, known := range all.AllKnownTypes() {
		visit(known, structs)
	}
	names := make([]string, 0, len(structs))
	for name := range structs {
		names = append(names, name)
	}
	sort.Strings(names)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, name := range names {
		fields, err := json.Marshal(structs[name].fields)
		numbers, second := json.Marshal(structs[name].numbers)
		if err != nil || second != nil {
			fmt.Fprintln(os.Stderr, "fields:", err, second)
			os.Exit(1)
		}
		fmt.Fprintf(out, "%s %s\t%s\n", name, fields, numbers)
	}
}

// structure is what is known of a struct.
type structure struct {
	fields  map[string]string
	numbers map[string]string
}

func visit(t reflect.Type, structs map[string]structure) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		visit(t.Elem(), structs)
		return
	case reflect.Struct:
	default:
		return
	}
	name := openAPIName(t)
	if _, known := structs[name]; name == "" || known || isScalar(t) {
		return
	}
	found := structure{fields: map[string]string{}, numbers: map[string]string{}}
	structs[name] = found
	collect(t, found.fields, structs)
	number(t, found.numbers, structs)
}

// number notes the protobuf fields of t.
func number(t reflect.Type, numbers map[string]string, structs map[string]structure) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(tag) < 2 || !field.IsExported() {
			continue
		}
		name := strings.Split(field.Tag.Get("json"), ",")[0]
		if field.Anonymous && name == "" {
			visit(field.Type, structs)
		}
		numbers[tag[1]] = name + " " + wireType(field.Type)
	}
}

func wireType(t reflect.Type) string {
	switch openAPIName(t) {
	case "io.k8s.apimachinery.pkg.api.resource.Quantity":
		return "q"
	case "io.k8s.apimachinery.pkg.apis.meta.v1.Time":
		return "t"
	case "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":
		return "u"
	case "io.k8s.apimachinery.pkg.apis.meta.v1.Duration":
		return "n"
	case "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
		return "x"
	case "io.k8s.apimachinery.pkg.runtime.RawExtension", "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1":
		return "r"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wireType(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "y"
		}
		return "[" + wireType(t.Elem())
	case reflect.Map:
		return "{" + wireType(t.Elem())
	case reflect.Struct:
		return "m:" + openAPIName(t)
	case reflect.Bool:
		return "b"
	case reflect.String:
		return "s"
	case reflect.Float32, reflect.Float64:
		return "d"
	default:
		return "i"
	}
}

func collect(t reflect.Type, fields map[string]string, structs map[string]structure) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if tag[0] == "-" || !field.IsExported() {
			continue
		}
		if field.Anonymous && tag[0] == "" {
			collect(field.Type, fields, structs)
			continue
		}
		name := tag[0]
		if name == "" {
			name = field.Name
		}
		fields[name] = presence(field.Type, tag[1:])
		visit(field.Type, structs)
	}
}

func presence(t reflect.Type, options []string) string {
	omitEmpty, omitZero := false, false
	for _, option := range options {
		omitEmpty = omitEmpty || option == "omitempty"
		omitZero = omitZero || option == "omitzero"
	}
	nilable := t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface
	switch {
	case (omitEmpty || omitZero) && nilable:
		return "nil"
	case omitZero && t.Kind() == reflect.Struct:
		return "zero"
	case omitEmpty && t.Kind() != reflect.Struct:
		return "omit"
	case omitZero:
		return "nil"
	}
	zero, err := json.Marshal(reflect.Zero(t).Interface())
	if err != nil {
		zero = []byte("null")
	}
	return "keep:" + string(zero)
}

func isScalar(t reflect.Type) bool {
	for _, marshaler := range []reflect.Type{jsonMarshaler, textMarshaler} {
		if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
			return true
		}
	}
	return false
}

func openAPIName(t reflect.Type) string {
	path := t.PkgPath()
	if path == "" || t.Name() == "" {
		return ""
	}
	host, rest, _ := strings.Cut(path, "/")
	parts := strings.Split(host, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(append(parts, strings.Split(rest, "/")...), ".") + "." + t.Name()
}
