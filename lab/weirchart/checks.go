// Checks of Kubernetes objects: strict decoding into the official types, names and labels, references between objects.
package main

import (
	"fmt"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	security "k8s.io/pod-security-admission/policy"
)

// A set of objects that are installed together.
type set struct {
	objects  map[string]runtime.Object
	exists   map[string]bool
	pods     []pod
	services []*v1.Service
	faults   []string
}

// The pods of a workload.
type pod struct {
	owner    string
	template v1.PodTemplateSpec
	claims   map[string]bool
}

func (all *set) fault(format string, values ...interface{}) {
	all.faults = append(all.faults, fmt.Sprintf(format, values...))
}

// check returns the faults of rendered objects; `exists` has those that are made by hand, as KIND/NAME.
func check(texts []string, exists []string) []string {
	all := set{objects: map[string]runtime.Object{}, exists: map[string]bool{}}
	for _, name := range exists {
		all.exists[name] = true
	}
	if err := monitoring.AddToScheme(scheme.Scheme); err != nil {
		return []string{err.Error()}
	}
	// Unknown and repeated fields are faults.
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, text := range texts {
		object, kind, err := decoder.Decode([]byte(text), nil, nil)
		if err != nil {
			all.fault("%v in\n%s", err, text)
			continue
		}
		all.add(kind.Kind, object)
	}
	for name, object := range all.objects {
		all.references(name, object)
	}
	for _, one := range all.pods {
		all.pod(one)
	}
	return all.faults
}

func (all *set) add(kind string, object runtime.Object) {
	about, err := meta.Accessor(object)
	if err != nil {
		all.fault("%s: %v", kind, err)
		return
	}
	name := kind + "/" + about.GetName()
	if _, isThere := all.objects[name]; isThere {
		all.fault("%s is there twice", name)
	}
	all.objects[name] = object
	longest := validation.IsDNS1123Subdomain
	if kind == "Service" || kind == "StatefulSet" {
		longest = validation.IsDNS1035Label
	}
	for _, reason := range longest(about.GetName()) {
		all.fault("%s: %s", name, reason)
	}
	all.labels(name, about.GetLabels())
	switch one := object.(type) {
	case *apps.Deployment:
		all.workload(name, one.Spec.Selector, one.Spec.Template, nil)
	case *apps.StatefulSet:
		claims := map[string]bool{}
		for _, claim := range one.Spec.VolumeClaimTemplates {
			claims[claim.Name] = true
		}
		all.workload(name, one.Spec.Selector, one.Spec.Template, claims)
	case *v1.Service:
		all.services = append(all.services, one)
	}
}

func (all *set) labels(name string, given map[string]string) {
	for key, value := range given {
		for _, reason := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			all.fault("%s: label %s: %s: %s", name, key, value, reason)
		}
	}
}

func (all *set) workload(name string, selector *metav1.LabelSelector, template v1.PodTemplateSpec, claims map[string]bool) {
	all.labels(name, template.Labels)
	if !selects(selector, template.Labels) {
		all.fault("%s: the selector does not select its own pods", name)
	}
	all.pods = append(all.pods, pod{owner: name, template: template, claims: claims})
}

func selects(selector *metav1.LabelSelector, given map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !parsed.Empty() && parsed.Matches(labels.Set(given))
}

// Whether a selector selects the pods of a workload of the set.
func (all *set) selectsPods(name string, selector *metav1.LabelSelector) *pod {
	for index := range all.pods {
		if selects(selector, all.pods[index].template.Labels) {
			return &all.pods[index]
		}
	}
	all.fault("%s: it selects no pod", name)
	return nil
}

func (one *pod) hasPort(name string) bool {
	for _, container := range one.template.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == name {
				return true
			}
		}
	}
	return false
}

func (all *set) has(name string) bool {
	_, isThere := all.objects[name]
	return isThere || all.exists[name]
}

func (all *set) needs(owner, name string) {
	if !all.has(name) {
		all.fault("%s: it needs %s, which does not exist", owner, name)
	}
}

// References of an object to others of the set.
func (all *set) references(name string, object runtime.Object) {
	switch one := object.(type) {
	case *v1.Service:
		if chosen := all.selectsPods(name, &metav1.LabelSelector{MatchLabels: one.Spec.Selector}); chosen != nil {
			for _, port := range one.Spec.Ports {
				if !chosen.hasPort(port.TargetPort.StrVal) {
					all.fault("%s: no container has the port %s", name, port.TargetPort.String())
				}
			}
		}
	case *apps.StatefulSet:
		all.needs(name, "Service/"+one.Spec.ServiceName)
	case *policy.PodDisruptionBudget:
		all.selectsPods(name, one.Spec.Selector)
	case *autoscaling.HorizontalPodAutoscaler:
		all.needs(name, one.Spec.ScaleTargetRef.Kind+"/"+one.Spec.ScaleTargetRef.Name)
	case *networking.NetworkPolicy:
		if chosen := all.selectsPods(name, &one.Spec.PodSelector); chosen != nil {
			for _, rule := range one.Spec.Ingress {
				for _, port := range rule.Ports {
					if !chosen.hasPort(port.Port.StrVal) {
						all.fault("%s: no container has the port %s", name, port.Port.String())
					}
				}
			}
		}
	case *rbac.ClusterRoleBinding:
		all.needs(name, one.RoleRef.Kind+"/"+one.RoleRef.Name)
		for _, subject := range one.Subjects {
			all.needs(name, subject.Kind+"/"+subject.Name)
		}
	case *monitoring.ServiceMonitor:
		all.scrapes(name, one)
	case *monitoring.PrometheusRule:
		for _, group := range one.Spec.Groups {
			if len(group.Rules) == 0 {
				all.fault("%s: the group %s has no rule", name, group.Name)
			}
		}
	}
}

func (all *set) scrapes(name string, monitor *monitoring.ServiceMonitor) {
	found := 0
	for _, service := range all.services {
		if !selects(&monitor.Spec.Selector, service.Labels) {
			continue
		}
		found++
		for _, endpoint := range monitor.Spec.Endpoints {
			hasPort := false
			for _, port := range service.Spec.Ports {
				hasPort = hasPort || port.Name == endpoint.Port
			}
			if !hasPort {
				all.fault("%s: the Service %s has no port %s", name, service.Name, endpoint.Port)
			}
		}
	}
	if found != 1 {
		all.fault("%s: it selects %d Services instead of one", name, found)
	}
}

// Volumes, ports of probes, secrets, and the restricted profile of Kubernetes.
func (all *set) pod(one pod) {
	spec := one.template.Spec
	volumes := map[string]bool{}
	for name := range one.claims {
		volumes[name] = false
	}
	for _, volume := range spec.Volumes {
		if _, isThere := volumes[volume.Name]; isThere {
			all.fault("%s: the volume %s is there twice", one.owner, volume.Name)
		}
		volumes[volume.Name] = false
		if volume.ConfigMap != nil {
			all.needs(one.owner, "ConfigMap/"+volume.ConfigMap.Name)
		}
		if volume.Secret != nil {
			all.needs(one.owner, "Secret/"+volume.Secret.SecretName)
		}
	}
	if spec.ServiceAccountName != "default" {
		all.needs(one.owner, "ServiceAccount/"+spec.ServiceAccountName)
	}
	for _, container := range spec.Containers {
		for _, mount := range container.VolumeMounts {
			if _, isThere := volumes[mount.Name]; !isThere {
				all.fault("%s: the mount %s names no volume", one.owner, mount.Name)
			}
			volumes[mount.Name] = true
		}
		for _, variable := range container.Env {
			if source := variable.ValueFrom; source != nil && source.SecretKeyRef != nil {
				all.needs(one.owner, "Secret/"+source.SecretKeyRef.Name)
			}
		}
		for _, probe := range []*v1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
			if probe == nil || probe.HTTPGet == nil || !one.hasPort(probe.HTTPGet.Port.StrVal) {
				all.fault("%s: a probe is missing or names no port", one.owner)
			}
		}
	}
	for name, isUsed := range volumes {
		if !isUsed {
			all.fault("%s: the volume %s is mounted nowhere", one.owner, name)
		}
	}
	all.restricted(one)
}

// The profile `restricted` of the Pod Security Standards; pods with the network of the machine are out of it by intent.
func (all *set) restricted(one pod) {
	if one.template.Spec.HostNetwork {
		return
	}
	evaluator, err := security.NewEvaluator(security.DefaultChecks(), nil)
	if err != nil {
		all.fault("%v", err)
		return
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &one.template.ObjectMeta, &one.template.Spec) {
		if !result.Allowed {
			all.fault("%s: %s: %s", one.owner, result.ForbiddenReason, strings.TrimSpace(result.ForbiddenDetail))
		}
	}
}
