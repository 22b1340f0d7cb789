import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.message.FindCoordinatorRequestData;
import org.apache.kafka.common.message.FindCoordinatorResponseData;
import org.apache.kafka.common.message.ListGroupsRequestData;
import org.apache.kafka.common.message.ListGroupsResponseData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.apache.kafka.common.requests.ListGroupsRequest;
import org.apache.kafka.common.requests.ListGroupsResponse;
import org.apache.kafka.common.requests.OffsetFetchRequest;
import org.apache.kafka.common.requests.OffsetFetchResponse;
import org.apache.kafka.common.requests.RequestHeader;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;

/**
 * Asks a broker what it knows, with Kafka's own request and response classes, and prints JSON lines in ASCII.
 *
 * <p>Offsets are read with OffsetFetch itself and not through the Admin client, because that client hides partitions
 * with a negative stored offset, and leader epochs below -1. Run with {@code BOOTSTRAP SECONDS COMMAND}; commands
 * that take input read one JSON document from stdin. A request that fails with a retriable error is sent again until
 * SECONDS have passed.
 */
public final class KafkaAnswers {
    private static final ObjectMapper JSON = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    private static final short OFFSET_FETCH_VERSION = 9;
    private static final int GROUPS_PER_FETCH = 50;

    private final String bootstrap;
    private final long deadlineNanos;
    private final PrintStream out;

    private KafkaAnswers(String bootstrap, int seconds) {
        this.bootstrap = bootstrap;
        this.deadlineNanos = System.nanoTime() + seconds * 1_000_000_000L;
        this.out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
    }

    public static void main(String[] arguments) throws Exception {
        KafkaAnswers answers = new KafkaAnswers(arguments[0], Integer.parseInt(arguments[1]));
        switch (arguments[2]) {
            case "make-offsets-topic" -> answers.makeOffsetsTopic();
            case "groups" -> answers.printGroups();
            case "offsets" -> answers.printOffsets(false);
            case "stable-offsets" -> answers.printOffsets(true);
            case "create-topics" -> answers.createTopics(JSON.readTree(System.in));
            case "commit" -> answers.commit(JSON.readTree(System.in));
            default -> throw new IllegalArgumentException("unknown command " + arguments[2]);
        }
        answers.out.flush();
    }

    /** A broker creates __consumer_offsets, with its own settings for it, when it is first asked for a coordinator. */
    private void makeOffsetsTopic() throws Exception {
        FindCoordinatorRequestData data = new FindCoordinatorRequestData()
            .setKeyType((byte) 0).setCoordinatorKeys(List.of("any-group"));
        while (true) {
            FindCoordinatorResponse response =
                (FindCoordinatorResponse) ask(new FindCoordinatorRequest.Builder(data).build((short) 4));
            FindCoordinatorResponseData.Coordinator answer = response.data().coordinators().get(0);
            if (!again(Errors.forCode(answer.errorCode()), "FindCoordinator")) return;
        }
    }

    private List<ListGroupsResponseData.ListedGroup> listGroups() throws Exception {
        while (true) {
            ListGroupsResponse response =
                (ListGroupsResponse) ask(new ListGroupsRequest.Builder(new ListGroupsRequestData()).build((short) 5));
            if (!again(Errors.forCode(response.data().errorCode()), "ListGroups")) return response.data().groups();
        }
    }

    private void printGroups() throws Exception {
        for (ListGroupsResponseData.ListedGroup group : listGroups()) {
            ObjectNode line = JSON.createObjectNode();
            line.put("group", group.groupId());
            line.put("state", group.groupState());
            line.put("type", group.groupType());
            line.put("protocol_type", group.protocolType());
            out.println(JSON.writeValueAsString(line));
        }
    }

    private void printOffsets(boolean stable) throws Exception {
        List<String> names = new ArrayList<>();
        for (ListGroupsResponseData.ListedGroup group : listGroups()) names.add(group.groupId());
        for (int from = 0; from < names.size(); from += GROUPS_PER_FETCH) {
            List<String> some = names.subList(from, Math.min(names.size(), from + GROUPS_PER_FETCH));
            for (OffsetFetchResponseData.OffsetFetchResponseGroup group : fetch(some, stable)) printGroup(group);
        }
    }

    private List<OffsetFetchResponseData.OffsetFetchResponseGroup> fetch(List<String> names, boolean stable)
            throws Exception {
        OffsetFetchRequestData data = new OffsetFetchRequestData().setRequireStable(stable);
        for (String name : names) {
            data.groups().add(new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(name).setTopics(null));
        }
        while (true) {
            OffsetFetchResponse response = (OffsetFetchResponse)
                ask(OffsetFetchRequest.Builder.forTopicNames(data, true).build(OFFSET_FETCH_VERSION));
            boolean retry = false;
            for (OffsetFetchResponseData.OffsetFetchResponseGroup group : response.data().groups()) {
                retry |= again(Errors.forCode(group.errorCode()), "OffsetFetch of " + group.groupId());
            }
            if (!retry) return response.data().groups();
        }
    }

    private void printGroup(OffsetFetchResponseData.OffsetFetchResponseGroup group) throws IOException {
        ObjectNode line = JSON.createObjectNode();
        line.put("group", group.groupId());
        ArrayNode offsets = line.putArray("offsets");
        for (OffsetFetchResponseData.OffsetFetchResponseTopics topic : group.topics()) {
            for (OffsetFetchResponseData.OffsetFetchResponsePartitions partition : topic.partitions()) {
                ArrayNode row = offsets.addArray();
                row.add(topic.name()).add(partition.partitionIndex()).add(partition.committedOffset());
                row.add(partition.committedLeaderEpoch()).add(partition.metadata());
                row.add(Errors.forCode(partition.errorCode()).name());
            }
        }
        out.println(JSON.writeValueAsString(line));
    }

    private void createTopics(JsonNode wanted) throws Exception {
        try (Admin admin = admin()) {
            List<NewTopic> topics = new ArrayList<>();
            wanted.properties().forEach(topic ->
                topics.add(new NewTopic(topic.getKey(), topic.getValue().asInt(), (short) 1)));
            for (var result : admin.createTopics(topics).values().entrySet()) {
                try {
                    result.getValue().get();
                } catch (ExecutionException failure) {
                    if (!(failure.getCause() instanceof TopicExistsException)) throw failure;
                }
            }
        }
    }

    private void commit(JsonNode requests) throws Exception {
        try (Admin admin = admin()) {
            for (JsonNode request : requests) commitOne(admin, request.get("group").asText(), request.get("offsets"));
        }
    }

    private void commitOne(Admin admin, String group, JsonNode rows) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode row : rows) {
            Optional<Integer> epoch = row.get(3).isNull() ? Optional.empty() : Optional.of(row.get(3).asInt());
            offsets.put(new TopicPartition(row.get(0).asText(), row.get(1).asInt()),
                        new OffsetAndMetadata(row.get(2).asLong(), epoch, row.get(4).asText()));
        }
        while (true) {
            try {
                admin.alterConsumerGroupOffsets(group, offsets).all().get();
                return;
            } catch (ExecutionException failure) {
                boolean retriable = failure.getCause() instanceof RetriableException
                    || failure.getCause() instanceof UnknownTopicOrPartitionException;
                if (!retriable || System.nanoTime() > deadlineNanos) throw failure;
                Thread.sleep(100);
            }
        }
    }

    /** Pauses and returns true if the request must be sent again; throws if the error is final or it is too late. */
    private boolean again(Errors error, String what) throws Exception {
        if (error == Errors.NONE) return false;
        boolean retriable = error.exception() instanceof RetriableException;
        if (!retriable || System.nanoTime() > deadlineNanos) throw new IOException(what + ": " + error);
        Thread.sleep(100);
        return true;
    }

    private AbstractResponse ask(AbstractRequest request) throws IOException {
        int colon = bootstrap.lastIndexOf(':');
        RequestHeader header = new RequestHeader(request.apiKey(), request.version(), "offsetlog-tests", 1);
        try (Socket socket = new Socket(bootstrap.substring(0, colon), Integer.parseInt(bootstrap.substring(colon + 1)))) {
            socket.setSoTimeout((int) Math.max(1, (deadlineNanos - System.nanoTime()) / 1_000_000));
            ByteBuffer bytes = request.serializeWithHeader(header);
            DataOutputStream output = new DataOutputStream(socket.getOutputStream());
            output.writeInt(bytes.remaining());
            output.write(bytes.array(), bytes.arrayOffset() + bytes.position(), bytes.remaining());
            output.flush();
            DataInputStream input = new DataInputStream(socket.getInputStream());
            byte[] answer = new byte[input.readInt()];
            input.readFully(answer);
            return AbstractResponse.parseResponse(ByteBuffer.wrap(answer), header);
        }
    }

    private Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap));
    }
}
