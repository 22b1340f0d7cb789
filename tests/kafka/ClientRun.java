import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;

/** Runs one command of Kafka's own Java client: BOOTSTRAP COMMAND ARGUMENTS. Prints the results as JSON lines. */
public final class ClientRun {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ClientRun() { }

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        switch (arguments[1]) {
            case "produce" -> produce(bootstrap, arguments[2], arguments[3], Integer.parseInt(arguments[4]));
            case "consume" -> consume(bootstrap, arguments[2], arguments[3], arguments[4], arguments[5]);
            case "admin" -> administer(bootstrap);
            default -> throw new IllegalArgumentException("unknown command " + arguments[1]);
        }
    }

    /** Sends numbered records to all partitions of a topic, idempotently, and prints the offset of each. */
    private static void produce(String bootstrap, String topic, String codec, int count) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "compression.type", codec,
            "enable.idempotence", true, "acks", "all", "linger.ms", 2);
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            int partitions = producer.partitionsFor(topic).size();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                String value = codec + " " + number;
                sent.add(producer.send(new ProducerRecord<>(topic, number % partitions, null, value)));
            }
            for (int number = 0; number < count; number++) {
                RecordMetadata at = sent.get(number).get();
                printRecord(at.partition(), at.offset(), codec + " " + number);
            }
        }
    }

    /**
     * Reads as a member of a group, and prints and then commits each record, until a line comes on stdin. Every
     * second commit is asynchronous. After the line, the consumer is closed and leaves the group; a killed process
     * does not leave it.
     */
    private static void consume(String bootstrap, String topic, String group, String assignor, String instance)
            throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", group,
            "auto.offset.reset", "earliest", "enable.auto.commit", false, "session.timeout.ms", 6000,
            "heartbeat.interval.ms", 300, "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor));
        if (!instance.isEmpty()) settings.put("group.instance.id", instance);
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            for (int round = 0; System.in.available() == 0; round++) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    printRecord(record.partition(), record.offset(), record.value());
                }
                try {
                    if (round % 2 == 0) consumer.commitSync(); else consumer.commitAsync();
                } catch (CommitFailedException | RebalanceInProgressException refused) {
                    // The next owner reads again what this member could not commit.
                }
            }
            try {
                consumer.commitSync();
            } catch (CommitFailedException | RebalanceInProgressException refused) {
                // As above.
            }
        }
    }

    private static synchronized void printRecord(int partition, long offset, String value) throws Exception {
        ObjectNode line = JSON.createObjectNode();
        line.put("partition", partition).put("offset", offset).put("value", value);
        System.out.println(JSON.writeValueAsString(line));
    }

    /** Creates a topic and a group with positions, changes and reads both by every call, and prints the answers. */
    private static void administer(String bootstrap) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            String topic = "administered", group = "administered-group";
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get();
            print("partitions", admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            AlterConfigOp set = new AlterConfigOp(new ConfigEntry("retention.ms", "77000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
            print("retention.ms", admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value());
            TopicPartition one = new TopicPartition(topic, 1), two = new TopicPartition(topic, 2);
            admin.alterConsumerGroupOffsets(group, Map.of(one, new OffsetAndMetadata(5, "here"), two, new OffsetAndMetadata(6)))
                .all().get();
            print("altered", positions(admin, group));
            print("groups", admin.listConsumerGroups().all().get().size());
            print("state", admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState().toString());
            admin.deleteConsumerGroupOffsets(group, Set.of(two)).all().get();
            print("left", positions(admin, group));
            print("latest", admin.listOffsets(Map.of(one, OffsetSpec.latest())).all().get().get(one).offset());
            print("nodes", admin.describeCluster().nodes().get().size());
            admin.deleteConsumerGroups(List.of(group)).all().get();
            print("groups at the end", admin.listConsumerGroups().all().get().size());
            admin.deleteTopics(List.of(topic)).all().get();
            print("topics at the end", admin.listTopics().names().get().size());
        }
    }

    private static String positions(Admin admin, String group) throws Exception {
        Map<String, String> found = new java.util.TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
            .forEach((partition, at) -> found.put(partition.toString(), at.offset() + " " + at.metadata()));
        return found.toString();
    }

    private static void print(String name, Object value) throws Exception {
        System.out.println(JSON.writeValueAsString(Map.of(name, String.valueOf(value))));
    }
}
