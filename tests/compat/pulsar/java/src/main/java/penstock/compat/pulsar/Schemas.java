package penstock.compat.pulsar;

import com.google.protobuf.Int32Value;
import com.google.protobuf.StringValue;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;

/**
 * What Pulsar's client for Java does with schemas: Schemas URL HTTP-URL PREFIX. Each story has topics of its own, which
 * begin with the prefix, and says what it saw: story, what, value, with tabs between them.
 */
public final class Schemas {
    public static class User {
        public String name;
        public int age;

        User with(String name, int age) {
            this.name = name;
            this.age = age;
            return this;
        }
    }

    /** A user with one field more, which may be missing. */
    public static class Member {
        public String name;
        public int age;
        public String email;

        Member with(String name, int age, String email) {
            this.name = name;
            this.age = age;
            this.email = email;
            return this;
        }
    }

    /** Nobody's age is a text. */
    public static class Stranger {
        public String name;
        public String age;
    }

    interface Story {
        void tell(PulsarClient client, String topic, Map<String, Object> seen) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        String url = args[0], http = args[1], prefix = args[2];
        Map<String, Story> stories = new TreeMap<>(Map.of(
                "avro", (client, topic, seen) -> evolve(client, topic, seen, Schema.AVRO(User.class), Schema.AVRO(Member.class)),
                "json", (client, topic, seen) -> evolve(client, topic, seen, Schema.JSON(User.class), Schema.JSON(Member.class)),
                "refused", Schemas::refused,
                "inline", (client, topic, seen) -> pair(client, topic, seen, KeyValueEncodingType.INLINE),
                "separated", (client, topic, seen) -> pair(client, topic, seen, KeyValueEncodingType.SEPARATED),
                "primitives", Schemas::primitives,
                "auto", Schemas::auto,
                "several", Schemas::several,
                "bytes", Schemas::bytes));
        stories.put("protobuf", Schemas::protobuf);
        stories.put("admin", new SchemaAdmin(http)::tell);
        try (PulsarClient client = PulsarClient.builder().serviceUrl(url).build();
                PulsarClient byHttp = PulsarClient.builder().serviceUrl(http).build()) {
            for (Map.Entry<String, Story> story : stories.entrySet()) {
                say(story.getKey(), story.getValue(), client, prefix);
            }
            say("auto-http", Schemas::auto, byHttp, prefix);
        }
        System.exit(0);
    }

    private static void say(String name, Story story, PulsarClient client, String prefix) {
        Map<String, Object> seen = new TreeMap<>();
        try {
            story.tell(client, prefix + "-" + name, seen);
        } catch (Exception error) {
            seen.put("failed", String.valueOf(error).replace('\t', ' ').replace('\n', ' '));
        }
        seen.forEach((what, value) -> System.out.println(name + "\t" + what + "\t" + value));
    }

    static String error(Producing what) {
        try {
            what.run();
            return "none";
        } catch (Exception error) {
            return error.getClass().getSimpleName();
        }
    }

    interface Producing {
        void run() throws Exception;
    }

    private static <T> Consumer<T> consumer(PulsarClient client, Schema<T> schema, String topic, String name) throws Exception {
        return client.newConsumer(schema).topic(topic).subscriptionName(name)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }

    private static <T> Message<T> next(Consumer<T> consumer) throws Exception {
        return Objects.requireNonNull(consumer.receive(15, TimeUnit.SECONDS), "nothing came");
    }

    private static String version(Message<?> message) {
        byte[] version = message.getSchemaVersion();
        return version == null ? "none" : String.valueOf(java.nio.ByteBuffer.wrap(version).getLong()) + "/" + version.length;
    }

    /** Two versions of a record are written, and both are read with each of them. */
    private static void evolve(PulsarClient client, String topic, Map<String, Object> seen, Schema<User> user, Schema<Member> member)
            throws Exception {
        try (Producer<User> first = client.newProducer(user).topic(topic).create();
                Producer<Member> second = client.newProducer(member).topic(topic).create();
                Producer<User> again = client.newProducer(user).topic(topic).create();
                Consumer<User> old = consumer(client, user, topic, "old");
                Consumer<Member> young = consumer(client, member, topic, "young")) {
            first.send(new User().with("a", 1));
            second.send(new Member().with("b", 2, "b@c"));
            again.send(new User().with("c", 3));
            StringBuilder users = new StringBuilder(), members = new StringBuilder(), versions = new StringBuilder();
            for (int at = 0; at < 3; at++) {
                Message<User> message = next(old);
                users.append(message.getValue().name).append(message.getValue().age).append(' ');
                versions.append(version(message)).append(' ');
                Member value = next(young).getValue();
                members.append(value.name).append(value.age).append(value.email).append(' ');
            }
            seen.put("users", users);
            seen.put("members", members);
            seen.put("versions", versions);
        }
    }

    private static void refused(PulsarClient client, String topic, Map<String, Object> seen) throws Exception {
        try (Producer<User> producer = client.newProducer(Schema.AVRO(User.class)).topic(topic).create()) {
            seen.put("producer", error(() -> client.newProducer(Schema.AVRO(Stranger.class)).topic(topic).create()));
            seen.put("consumer", error(() -> consumer(client, Schema.AVRO(Stranger.class), topic, "s")));
            seen.put("other kind", error(() -> client.newProducer(Schema.JSON(User.class)).topic(topic).create()));
            seen.put("string", error(() -> consumer(client, Schema.STRING, topic, "s")));
            seen.put("bytes", error(() -> client.newProducer().topic(topic).create().close()));
            seen.put("right", error(() -> consumer(client, Schema.AVRO(User.class), topic, "s").close()));
        }
    }

    private static void pair(PulsarClient client, String topic, Map<String, Object> seen, KeyValueEncodingType how) throws Exception {
        Schema<KeyValue<String, User>> schema = Schema.KeyValue(Schema.STRING, Schema.AVRO(User.class), how);
        Schema<KeyValue<String, Member>> newer = Schema.KeyValue(Schema.STRING, Schema.AVRO(Member.class), how);
        try (Producer<KeyValue<String, User>> producer = client.newProducer(schema).topic(topic).create();
                Producer<KeyValue<String, Member>> second = client.newProducer(newer).topic(topic).create();
                Consumer<KeyValue<String, User>> consumer = consumer(client, schema, topic, "s");
                Consumer<GenericRecord> any = consumer(client, Schema.AUTO_CONSUME(), topic, "any")) {
            producer.send(new KeyValue<>("k", new User().with("a", 1)));
            second.send(new KeyValue<>("l", new Member().with("b", 2, null)));
            Message<KeyValue<String, User>> first = next(consumer), last = next(consumer);
            seen.put("value", first.getValue().getKey() + first.getValue().getValue().name + first.getValue().getValue().age);
            seen.put("next", last.getValue().getKey() + last.getValue().getValue().name + last.getValue().getValue().age);
            seen.put("key", first.hasKey());
            seen.put("version", version(last));
            KeyValue<?, ?> generic = (KeyValue<?, ?>) next(any).getValue().getNativeObject();
            seen.put("generic", generic.getKey() + "" + ((GenericRecord) generic.getValue()).getField("name"));
            Schema<KeyValue<Integer, User>> other = Schema.KeyValue(Schema.INT32, Schema.AVRO(User.class), how);
            seen.put("other key", error(() -> client.newProducer(other).topic(topic).create()));
            Schema<KeyValue<String, Stranger>> stranger = Schema.KeyValue(Schema.STRING, Schema.AVRO(Stranger.class), how);
            seen.put("other value", error(() -> consumer(client, stranger, topic, "t")));
        }
    }

    private static void primitives(PulsarClient client, String topic, Map<String, Object> seen) throws Exception {
        one(client, topic + "-string", seen, Schema.STRING, "text");
        one(client, topic + "-int8", seen, Schema.INT8, (byte) -8);
        one(client, topic + "-int16", seen, Schema.INT16, (short) 300);
        one(client, topic + "-int32", seen, Schema.INT32, -7);
        one(client, topic + "-int64", seen, Schema.INT64, 1L << 40);
        one(client, topic + "-float", seen, Schema.FLOAT, 0.5f);
        one(client, topic + "-double", seen, Schema.DOUBLE, 1.5);
        one(client, topic + "-bool", seen, Schema.BOOL, true);
        one(client, topic + "-instant", seen, Schema.INSTANT, java.time.Instant.ofEpochSecond(5));
        one(client, topic + "-date", seen, Schema.LOCAL_DATE, java.time.LocalDate.of(2024, 2, 29));
        one(client, topic + "-time", seen, Schema.LOCAL_TIME, java.time.LocalTime.of(1, 2, 3));
        one(client, topic + "-both", seen, Schema.LOCAL_DATE_TIME, java.time.LocalDateTime.of(2024, 2, 29, 1, 2, 3));
        one(client, topic + "-day", seen, Schema.DATE, new java.util.Date(5_000));
        one(client, topic + "-clock", seen, Schema.TIME, new java.sql.Time(5_000));
        one(client, topic + "-timestamp", seen, Schema.TIMESTAMP, new java.sql.Timestamp(5_000));
        seen.replaceAll((name, found) -> found instanceof java.util.Date date ? date.getTime() : found);
        seen.put("other", error(() -> client.newProducer(Schema.INT32).topic(topic + "-string").create()));
    }

    private static <T> void one(PulsarClient client, String topic, Map<String, Object> seen, Schema<T> schema, T value)
            throws Exception {
        try (Consumer<T> consumer = consumer(client, schema, topic, "s");
                Producer<T> producer = client.newProducer(schema).topic(topic).create()) {
            producer.send(value);
            seen.put(topic.substring(topic.lastIndexOf('-') + 1), next(consumer).getValue());
        }
    }

    /** Messages of Protobuf, told by a schema of Avro, or by their own descriptors. */
    private static void protobuf(PulsarClient client, String topic, Map<String, Object> seen) throws Exception {
        StringValue value = StringValue.of("text");
        one(client, topic + "-avro", seen, Schema.PROTOBUF(StringValue.class), value);
        one(client, topic + "-native", seen, Schema.PROTOBUF_NATIVE(StringValue.class), value);
        seen.replaceAll((name, found) -> ((StringValue) found).getValue());
        Schema<Int32Value> other = Schema.PROTOBUF_NATIVE(Int32Value.class);
        seen.put("other", error(() -> client.newProducer(other).topic(topic + "-native").create()));
    }

    /** Who does not know the schema gets records; who writes bytes has them checked against it. */
    private static void auto(PulsarClient client, String topic, Map<String, Object> seen) throws Exception {
        try (Consumer<GenericRecord> any = consumer(client, Schema.AUTO_CONSUME(), topic, "any");
                Producer<User> first = client.newProducer(Schema.AVRO(User.class)).topic(topic).create();
                Producer<Member> second = client.newProducer(Schema.AVRO(Member.class)).topic(topic).create();
                Producer<byte[]> bytes = client.newProducer(Schema.AUTO_PRODUCE_BYTES()).topic(topic).create()) {
            first.send(new User().with("a", 1));
            second.send(new Member().with("b", 2, "b@c"));
            bytes.send(Schema.AVRO(Member.class).encode(new Member().with("c", 3, "c@d")));
            StringBuilder read = new StringBuilder();
            for (int at = 0; at < 3; at++) {
                GenericRecord record = next(any).getValue();
                read.append(record.getField("name")).append(record.getField("age")).append(':').append(record.getFields().size()).append(' ');
            }
            seen.put("read", read);
            seen.put("kind", next(consumer(client, Schema.AUTO_CONSUME(), topic, "again")).getValue().getSchemaType());
            seen.put("not such bytes", error(() -> bytes.send("nothing".getBytes(StandardCharsets.UTF_8))));
        }
    }

    /** One producer sends messages of several schemas: it registers each with the first message. */
    private static void several(PulsarClient client, String topic, Map<String, Object> seen) throws Exception {
        try (Producer<byte[]> producer = client.newProducer().topic(topic).create();
                Consumer<GenericRecord> any = consumer(client, Schema.AUTO_CONSUME(), topic, "any")) {
            producer.newMessage(Schema.AVRO(User.class)).value(new User().with("a", 1)).send();
            producer.newMessage(Schema.AVRO(Member.class)).value(new Member().with("b", 2, "b@c")).send();
            producer.newMessage(Schema.AVRO(User.class)).value(new User().with("c", 3)).send();
            seen.put("versions", version(next(any)) + " " + version(next(any)) + " " + version(next(any)));
            seen.put("stranger", error(() -> producer.newMessage(Schema.AVRO(Stranger.class)).value(new Stranger()).send()));
        }
    }

    /** Messages without a schema, in front of the first one that has one. */
    private static void bytes(PulsarClient client, String topic, Map<String, Object> seen) throws Exception {
        try (Producer<byte[]> plain = client.newProducer().topic(topic).create()) {
            plain.send("plain".getBytes(StandardCharsets.UTF_8));
            seen.put("consumer", error(() -> consumer(client, Schema.AVRO(User.class), topic, "s")));
            try (Producer<User> typed = client.newProducer(Schema.AVRO(User.class)).topic(topic).create();
                    Consumer<byte[]> consumer = consumer(client, Schema.BYTES, topic, "b")) {
                typed.send(new User().with("a", 1));
                seen.put("versions", version(next(consumer)) + " " + version(next(consumer)));
            }
        }
    }

    private Schemas() {
    }
}
