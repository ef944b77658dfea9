package penstock.compat;

import java.util.Arrays;
import java.util.Map;

/**
 * Drives the RocketMQ client from the command line: one subcommand, options as --name value, one JSON object per line
 * on standard output. The same source runs on client 4.9.8 and on 5.5.0.
 *
 * <p>A consumer runs until its standard input ends; then it shuts down as an application would, so that its offsets are
 * stored. What the client itself logs goes to files under user.home, never to standard output.
 */
public final class Driver {
    interface Command {
        void run(Options options) throws Exception;
    }

    private static final Map<String, Command> COMMANDS = Map.of(
        "produce", Produce::run,
        "push", Push::run,
        "pull", Pull::run,
        "transact", Transact::run,
        "request", Request::ask,
        "reply", Request::reply,
        "query", Query::run,
        "admin", Admin::run,
        "allocate", Allocate::run,
        "offsets", Offsets::run);

    private Driver() {
    }

    public static void main(String[] args) {
        Command command = args.length == 0 ? null : COMMANDS.get(args[0]);
        if (command == null) {
            System.err.println("usage: Driver " + String.join("|", COMMANDS.keySet()) + " --namesrv HOST:PORT ...");
            System.exit(2);
        }
        Hurry.up();
        System.exit(exitCode(command, new Options(Arrays.copyOfRange(args, 1, args.length))));
    }

    /** To be handed to System.exit: the client leaves threads behind that are no daemons. */
    private static int exitCode(Command command, Options options) {
        try {
            command.run(options);
            return 0;
        } catch (Exception failure) {
            failure.printStackTrace();
            return 1;
        }
    }
}
