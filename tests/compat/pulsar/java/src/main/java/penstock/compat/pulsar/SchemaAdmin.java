package penstock.compat.pulsar;

import static penstock.compat.pulsar.Schemas.error;

import java.util.List;
import java.util.Map;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy;
import org.apache.pulsar.common.schema.KeyValueEncodingType;
import org.apache.pulsar.common.schema.SchemaInfo;

/** The schemas as Pulsar's tools see them. */
final class SchemaAdmin {
    private static final String NAMESPACE = "public/default";
    private final String http;

    SchemaAdmin(String http) {
        this.http = http;
    }

    void tell(PulsarClient client, String topic, Map<String, Object> seen) throws Exception {
        try (PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(http).build()) {
            schemas(admin, topic, seen);
            pair(admin, topic + "-pair", seen);
            namespace(admin, topic, seen);
        }
    }

    private static void schemas(PulsarAdmin admin, String topic, Map<String, Object> seen) throws Exception {
        SchemaInfo user = Schema.AVRO(Schemas.User.class).getSchemaInfo();
        SchemaInfo member = Schema.AVRO(Schemas.Member.class).getSchemaInfo();
        SchemaInfo stranger = Schema.AVRO(Schemas.Stranger.class).getSchemaInfo();
        seen.put("none", error(() -> admin.schemas().getSchemaInfo(topic)));
        admin.schemas().createSchema(topic, user);
        admin.schemas().createSchema(topic, member);
        seen.put("refused", error(() -> admin.schemas().createSchema(topic, stranger)));
        seen.put("latest", admin.schemas().getSchemaInfoWithVersion(topic).getVersion());
        seen.put("kind", admin.schemas().getSchemaInfo(topic).getType());
        seen.put("first", List.of(user.getSchemaDefinition()).contains(admin.schemas().getSchemaInfo(topic, 0).getSchemaDefinition()));
        seen.put("all", admin.schemas().getAllSchemas(topic).size());
        seen.put("version", admin.schemas().getVersionBySchema(topic, user));
        seen.put("unknown version", admin.schemas().getVersionBySchema(topic, stranger));
        seen.put("fits", admin.schemas().testCompatibility(topic, member).isCompatibility());
        seen.put("strategy", admin.schemas().testCompatibility(topic, member).getSchemaCompatibilityStrategy());
        admin.schemas().deleteSchema(topic);
        seen.put("deleted", error(() -> admin.schemas().getSchemaInfo(topic)));
        seen.put("deleted version", error(() -> admin.schemas().getSchemaInfo(topic, 0)));
        admin.schemas().createSchema(topic, stranger);
        seen.put("after", admin.schemas().getSchemaInfoWithVersion(topic).getVersion());
    }

    private static void pair(PulsarAdmin admin, String topic, Map<String, Object> seen) throws Exception {
        SchemaInfo pair = Schema.KeyValue(Schema.STRING, Schema.AVRO(Schemas.User.class), KeyValueEncodingType.SEPARATED)
                .getSchemaInfo();
        admin.schemas().createSchema(topic, pair);
        SchemaInfo told = admin.schemas().getSchemaInfo(topic);
        seen.put("pair", told.getType() + " " + told.getProperties().get("kv.encoding.type"));
        seen.put("pair version", admin.schemas().getVersionBySchema(topic, pair));
    }

    private static void namespace(PulsarAdmin admin, String topic, Map<String, Object> seen) throws Exception {
        seen.put("unset", admin.namespaces().getSchemaCompatibilityStrategy(NAMESPACE));
        seen.put("validation", admin.namespaces().getSchemaValidationEnforced(NAMESPACE));
        seen.put("auto update", admin.namespaces().getIsAllowAutoUpdateSchema(NAMESPACE));
        admin.namespaces().setSchemaCompatibilityStrategy(NAMESPACE, SchemaCompatibilityStrategy.BACKWARD_TRANSITIVE);
        admin.namespaces().setSchemaValidationEnforced(NAMESPACE, true);
        admin.namespaces().setIsAllowAutoUpdateSchema(NAMESPACE, false);
        seen.put("set", admin.namespaces().getSchemaCompatibilityStrategy(NAMESPACE) + " "
                + admin.namespaces().getSchemaValidationEnforced(NAMESPACE) + " "
                + admin.namespaces().getIsAllowAutoUpdateSchema(NAMESPACE));
        admin.namespaces().setSchemaCompatibilityStrategy(NAMESPACE, SchemaCompatibilityStrategy.UNDEFINED);
        admin.namespaces().setSchemaValidationEnforced(NAMESPACE, false);
        admin.namespaces().setIsAllowAutoUpdateSchema(NAMESPACE, true);
    }
}
